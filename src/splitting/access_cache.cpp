#include "splitting/access_cache.hpp"

#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace cldist::splitting {

namespace {

using Accesses = std::optional<std::vector<ArgumentAccess>>;

class CachedModel final : public AccessModel {
public:
    CachedModel(std::unique_ptr<AccessModel> model, std::size_t most)
        : model_(std::move(model)), most_(most) {}

    bool splittable(std::string &why_not) const override { return model_->splittable(why_not); }

    Accesses accesses(const Launch &launch, const SubRange &part,
                      std::span<const Immediate> arguments) const override {
        const std::string key = key_of(launch, part, arguments);
        {
            const std::lock_guard lock(mutex_);
            if (const auto found = places_.find(key); found != places_.end()) {
                last_.splice(last_.begin(), last_, found->second);
                return found->second->second;
            }
        }
        Accesses answer = model_->accesses(launch, part, arguments);
        const std::lock_guard lock(mutex_);
        if (places_.contains(key)) return answer;  // another thread has added it
        last_.emplace_front(key, answer);
        places_.emplace(key, last_.begin());
        if (last_.size() > most_) {
            places_.erase(last_.back().first);
            last_.pop_back();
        }
        return answer;
    }

private:
    static std::string key_of(const Launch &launch, const SubRange &part,
                              std::span<const Immediate> arguments) {
        std::string key;
        const auto add = [&](std::size_t number) {
            key.append(reinterpret_cast<const char *>(&number), sizeof number);
        };
        add(launch.dimensions);
        for (const auto &sizes :
             {launch.offset, launch.global, launch.local, part.begin, part.end}) {
            for (const std::size_t size : sizes) add(size);
        }
        for (const Immediate &argument : arguments) {
            add(argument.buffer_size);
            add(argument.value.size());
            key.append(reinterpret_cast<const char *>(argument.value.data()),
                       argument.value.size());
        }
        return key;
    }

    using Entry = std::pair<std::string, Accesses>;

    const std::unique_ptr<AccessModel> model_;
    const std::size_t most_;
    mutable std::mutex mutex_;
    mutable std::list<Entry> last_;  // most recently used first
    mutable std::unordered_map<std::string, std::list<Entry>::iterator> places_;
};

}  // namespace

std::unique_ptr<AccessModel> cached(std::unique_ptr<AccessModel> model, std::size_t most) {
    return std::make_unique<CachedModel>(std::move(model), most);
}

}  // namespace cldist::splitting
