#include "cluster/objects/object.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/per_thread.hpp"
#include "cluster/calls/opencl_call.hpp"
#include "cluster/objects/lock.hpp"

namespace cldist::cluster {
namespace {

std::vector<std::function<void()>> &callbacks() {
    return per_thread<std::vector<std::function<void()>>>();
}

thread_local bool is_callback_thread = false;
std::atomic<bool> stopped = false;  // stop_callbacks()

class CallbackThread {
public:
    CallbackThread() {
        std::thread([this] { run(); }).detach();
    }

    void add(std::function<void()> callback) {
        {
            const std::lock_guard lock(mutex_);
            waiting_.push_back(std::move(callback));
        }
        filled_.notify_one();
    }

private:
    [[noreturn]] void run() {
        is_callback_thread = true;
        for (;;) {
            std::unique_lock lock(mutex_);
            filled_.wait(lock, [this] { return !waiting_.empty(); });
            std::function<void()> call = std::move(waiting_.front());
            waiting_.pop_front();
            lock.unlock();
            if (!stopped) call();
            call = nullptr;
            run_callbacks();
        }
    }

    std::mutex mutex_;
    std::condition_variable filled_;
    std::deque<std::function<void()>> waiting_;
};

// The objects without holders.
class Dropped {
public:
    using Entry = std::pair<void *, void (*)(void *)>;

    void add(Entry entry) {
        const std::lock_guard lock(mutex_);
        entries_.push_back(entry);
        some_dropped = true;
    }
    /// Frees the objects. Under the platform's lock.
    void end() {
        // Freeing an object may leave another object without holders.
        while (some_dropped) {
            {
                const std::lock_guard lock(mutex_);
                now_.swap(entries_);
                some_dropped = false;
            }
            for (const auto &[object, end] : now_) end(object);
            now_.clear();
        }
    }

private:
    std::mutex mutex_;
    std::vector<Entry> entries_;
    std::vector<Entry> now_;  // used by end(); a member to keep its memory
};

Dropped &dropped() {
    static auto &all = *new Dropped;
    return all;
}

}  // namespace

void end_dropped_here() { dropped().end(); }

// The thread that holds the lock checks again after releasing it, so that no object is missed.
void end_dropped() {
    while (some_dropped && api_mutex().try_lock()) {
        dropped().end();
        api_mutex().unlock();
    }
}

void end_later(void *object, void (*end)(void *)) {
    dropped().add({object, end});
    if (!api_mutex().held_here()) call_elsewhere(end_dropped);
}

void call_elsewhere(std::function<void()> callback) {
    if (stopped) return;
    static auto &thread = *new CallbackThread;  // it outlives the program's main
    thread.add(std::move(callback));
}

void stop_callbacks() { stopped = true; }

bool in_callback() { return is_callback_thread; }

std::unordered_map<const void *, Kind> &argument_objects() {
    static auto &all = *new std::unordered_map<const void *, Kind>;
    return all;
}

void call_later(std::function<void()> callback) {
    callbacks().push_back(std::move(callback));
    ++later_callbacks;
}

void run_later_callbacks() {
    static auto *const note = host_function<void(int)>("cldist_host_in_callbacks");
    if (note != nullptr) note(1);
    while (!callbacks().empty()) {
        std::vector<std::function<void()>> now;
        now.swap(callbacks());
        later_callbacks -= static_cast<unsigned>(now.size());
        for (const auto &call : now) call();
    }
    if (note != nullptr) note(0);
}

}  // namespace cldist::cluster
