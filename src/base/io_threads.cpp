#include "base/io_threads.hpp"

#include <pthread.h>
#include <sys/prctl.h>

#include <csignal>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.hpp"

namespace cldist {

struct IoThreads::State {
    const unsigned most;
    std::mutex mutex;
    std::condition_variable given;
    std::deque<std::function<void()>> jobs;
    unsigned threads = 0;
    unsigned idle = 0;
    bool stop = false;
};

namespace {

// A thread takes as long to wake as to copy a tenth of this.
constexpr std::size_t least_per_thread = std::size_t{256} << 10U;

// A thread that starts late finds no piece and does not touch `work`, which may be destroyed.
struct Pieces {
    const std::function<void(std::size_t, std::size_t)> &work;
    const std::size_t size, count;
    std::atomic<std::size_t> next = 0, done = 0;

    void take() {
        for (std::size_t piece = next++; piece < count; piece = next++) {
            work(size * piece / count, size * (piece + 1) / count);
            if (++done == count) done.notify_one();
        }
    }
};

// Blocks all signals for its lifetime, because they belong to the program's threads. A write to a
// pipe without reader must return an error, not end the process.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    SignalsBlocked(const SignalsBlocked &) = delete;
    SignalsBlocked &operator=(const SignalsBlocked &) = delete;
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_{};
};

}  // namespace

IoThreads::IoThreads(unsigned most) : state_(new State{most, {}, {}, {}, 0, 0, false}) {}

IoThreads::~IoThreads() {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->given.notify_all();
}

void IoThreads::run(std::function<void()> job) {
    {
        const std::lock_guard lock(state_->mutex);
        if (state_->jobs.size() >= state_->idle && state_->threads < state_->most) start_thread();
        if (state_->threads != 0) {
            state_->jobs.push_back(std::move(job));
            state_->given.notify_one();
            return;
        }
    }
    job();
}

void IoThreads::run_in_pieces(std::size_t size,
                              const std::function<void(std::size_t, std::size_t)> &work) {
    const std::size_t count = std::max<std::size_t>(size / least_per_thread, 1);
    const std::size_t helpers = std::min<std::size_t>(count, state_->most) - 1;
    const std::shared_ptr<Pieces> pieces(new Pieces{work, size, count});
    for (std::size_t n = 0; n < helpers; ++n) run([pieces] { pieces->take(); });
    pieces->take();
    for (std::size_t done = pieces->done; done < count; done = pieces->done)
        pieces->done.wait(done);
}

void IoThreads::start_thread() {
    const SignalsBlocked inherited_by_the_thread;
    try {
        std::thread([state = state_] { work(state); }).detach();
        ++state_->threads;
    } catch (const std::system_error &error) {
        log_warning("cannot create another thread for file commands, so they may be slower: {}",
                    error.what());
    }
}

void IoThreads::work(const std::shared_ptr<State> &state) {
    prctl(PR_SET_NAME, "cldist-file");
    std::unique_lock lock(state->mutex);
    for (;;) {
        ++state->idle;
        state->given.wait(lock, [&] { return state->stop || !state->jobs.empty(); });
        --state->idle;
        if (state->jobs.empty()) return;
        {
            const std::function<void()> job = std::exchange(state->jobs.front(), nullptr);
            state->jobs.pop_front();
            lock.unlock();
            job();
        }
        lock.lock();
    }
}

}  // namespace cldist
