#include "shared_files.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "host/channel.hpp"
#include "program.hpp"

namespace cldist::tool {
namespace {

constexpr std::uint32_t over = ~std::uint32_t{0};

}  // namespace

std::string path_of(const Descriptor &file) {
    return fmt::format("/proc/{}/fd/{}", getpid(), file.get());
}

ProgramCount::ProgramCount(Descriptor file) : file_(std::move(file)) {
    if (file_ && ftruncate(file_.get(), sizeof(Word)) == 0) word_ = map_shared<Word>(file_);
}

ProgramCount::~ProgramCount() {
    if (word_ != nullptr) munmap(word_, sizeof(Word));
}

bool ProgramCount::wait_for_another(std::uint32_t before) const {
    if (word_ == nullptr) return false;
    std::uint32_t now = 0;
    while ((now = word_->load()) <= before && pending_stop() == 0) host::sleep_on(*word_, now, 200);
    return now > before && now != over;
}

void ProgramCount::end() const {
    if (word_ == nullptr) return;
    word_->store(over - 1);
    host::wake_all(*word_);  // adds one
}

RankReport::RankReport() : file_(memfd_create("cldist-report", MFD_CLOEXEC)) {}

std::string RankReport::content() const {
    std::array<char, 4096> text{};
    const ssize_t size = pread(file_.get(), text.data(), text.size(), 0);
    return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

std::string RankReport::text() const {
    const std::string all = content();
    return all.substr(std::min(all.find_first_not_of(std::string_view("\0\1", 2)), all.size()));
}

bool RankReport::has_joined() const {
    char first = 'x';
    return pread(file_.get(), &first, 1, 0) == 1 && first == '\0';
}

bool RankReport::is_joined() const {
    struct flock whole {};
    whole.l_type = F_WRLCK;
    return fcntl(file_.get(), F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

bool RankReport::has_died() const {
    const std::ptrdiff_t running = is_joined() ? 1 : 0;
    const std::string all = content();
    return std::ranges::count(all, '\0') - std::ranges::count(all, '\1') > running;
}

}  // namespace cldist::tool
