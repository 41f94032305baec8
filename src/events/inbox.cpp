#include "events/inbox.hpp"

#include <utility>

namespace cldist {
namespace {

// An id consists of the number of its progress thread and this many lower bits.
constexpr unsigned id_bits = 48;

/// The inboxes of all progress threads.
struct AllInboxes {
    std::mutex mutex;
    std::vector<std::weak_ptr<Inbox>> of_thread;
};

AllInboxes &all_inboxes() {
    // Never destroyed, because callbacks may arrive at any time.
    static auto &instance = *new AllInboxes;
    return instance;
}

}  // namespace

std::shared_ptr<Inbox> Inbox::create() {
    auto inbox = std::make_shared<Inbox>();
    AllInboxes &all = all_inboxes();
    const std::lock_guard lock(all.mutex);
    inbox->next_id_ = (CommandId{all.of_thread.size()} << id_bits) + 1;
    all.of_thread.emplace_back(inbox);
    return inbox;
}

std::shared_ptr<Inbox> Inbox::find(CommandId id) {
    AllInboxes &all = all_inboxes();
    const std::lock_guard lock(all.mutex);
    return all.of_thread.at(id >> id_bits).lock();
}

bool Inbox::empty() const {
    return news_.ready.empty() && news_.submitted.empty() && news_.woken.empty() &&
           !news_.check_now && !stop_;
}

// Calls `write`, and wakes the thread if the inbox is not empty then. It releases the mutex first,
// because the thread would otherwise block on it and sleep once more.
template <typename Write>
void Inbox::fill(Write &&write) {
    {
        const std::lock_guard lock(mutex_);
        write();
        if (empty()) return;
        has_news_ = true;
    }
    filled_.notify_one();
}

void Inbox::add_ready(CommandId id) {
    fill([&] { news_.ready.push_back(id); });
}

void Inbox::add_woken(CommandId id) {
    fill([&] { news_.woken.push_back(id); });
}

void Inbox::submit(std::unique_ptr<Command> command, Status gate) {
    fill([&] { news_.submitted.push_back({std::move(command), std::move(gate), new_id()}); });
}

void Inbox::request_check(bool always) {
    fill([&] { news_.check_now |= always || dozing_; });
}

void Inbox::stop(const std::optional<Status> &status) {
    fill([&] {
        stop_status_ = status;
        stop_ = true;
    });
}

bool Inbox::take(News &news) {
    if (!has_news_) return true;
    const std::lock_guard lock(mutex_);
    return take_content(news);
}

bool Inbox::take_content(News &news) {
    if (stop_) return false;
    std::swap(news, news_);
    has_news_ = false;
    return true;
}

void Inbox::sleep(std::chrono::nanoseconds most) {
    std::unique_lock lock(mutex_);
    filled_.wait_for(lock, most, [&] { return !empty(); });
}

}  // namespace cldist
