#include "cluster/object.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace cldist::cluster {
namespace {

std::vector<std::function<void()>> &callbacks() {
    static thread_local std::vector<std::function<void()>> list;
    return list;
}

thread_local bool is_callback_thread = false;

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
            call();
            call = nullptr;
            run_callbacks();
        }
    }

    std::mutex mutex_;
    std::condition_variable filled_;
    std::deque<std::function<void()>> waiting_;
};

}  // namespace

void call_elsewhere(std::function<void()> callback) {
    static auto &thread = *new CallbackThread;  // it outlives the program's main
    thread.add(std::move(callback));
}

bool in_callback() { return is_callback_thread; }

std::unordered_map<const void *, Kind> &argument_objects() {
    static auto &all = *new std::unordered_map<const void *, Kind>;
    return all;
}

void call_later(std::function<void()> callback) { callbacks().push_back(std::move(callback)); }

void run_callbacks() {
    while (!callbacks().empty()) {
        std::vector<std::function<void()>> now;
        now.swap(callbacks());
        for (const auto &call : now) call();
    }
}

}  // namespace cldist::cluster
