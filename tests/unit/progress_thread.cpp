#include "events/progress_thread.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace cldist;

namespace {

// Records the order in which a test's operations end.
class Journal {
public:
    void note(int name) {
        const std::lock_guard lock(mutex_);
        entries_.push_back(name);
        changed_.notify_all();
    }
    std::vector<int> wait_for(std::size_t count) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::seconds(20), [&] { return entries_.size() >= count; });
        return entries_;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<int> entries_;
};

// Ends at poll `polls`, or never if that is 0. Notes its name, or the negative name on failure.
class FakeOperation final : public Operation {
public:
    FakeOperation(Journal &journal, int name, int polls)
        : Operation(std::make_shared<Record>(Direction::send, 0, 0, 0, 0)),
          journal_(journal),
          name_(name),
          polls_(polls) {}
    void start(const Status &gate) override {
        if (!gate.ok()) fail(gate);
    }
    Progress poll() override {
        if (polls_ == 0 || --polls_ > 0) return Progress::idle;
        journal_.note(status().ok() ? name_ : -name_);
        return Progress::done;
    }
    [[nodiscard]] bool bytes_in_flight() const override { return false; }

private:
    Journal &journal_;
    const int name_;
    int polls_;
};

// Records its phase at its start, when an operation would take its place in the order of messages.
class PlaceTaker final : public Operation {
public:
    explicit PlaceTaker(std::atomic<cl_int> &phase_before)
        : Operation(std::make_shared<Record>(Direction::recv, 0, 0, 0, 0)),
          phase_before_(phase_before) {}
    void start(const Status &) override { phase_before_ = record()->state().phase; }
    Progress poll() override { return Progress::idle; }
    [[nodiscard]] bool bytes_in_flight() const override { return false; }

private:
    std::atomic<cl_int> &phase_before_;
};

// Sleeps until the test ends it.
class SleepingOperation final : public Operation {
public:
    SleepingOperation(std::atomic<int> &polls, Journal &journal, int name)
        : Operation(std::make_shared<Record>(Direction::recv, 0, 0, 0, 0)),
          polls_(polls),
          journal_(journal),
          name_(name) {}
    void woken_by(const Waker &waker) override { waker_ = waker; }
    void start(const Status &) override {}
    Progress poll() override {
        ++polls_;
        if (!told_) return Progress::idle;
        journal_.note(name_);
        return Progress::done;
    }
    [[nodiscard]] bool bytes_in_flight() const override { return false; }
    [[nodiscard]] bool wakes() const override { return true; }

    // Only after the operation has started. The operation may be deleted during the call.
    void end() {
        const Waker waker = waker_;
        told_ = true;
        waker();
    }

private:
    std::atomic<int> &polls_;
    Journal &journal_;
    const int name_;
    Waker waker_;
    std::atomic<bool> told_{false};
};

class CountingPoller final : public Poller {
public:
    explicit CountingPoller(std::atomic<int> &count) : count_(count) {}
    bool poll() override {
        ++count_;
        return false;
    }

private:
    std::atomic<int> &count_;
};

std::unique_ptr<Command> command(std::unique_ptr<Operation> operation) {
    std::vector<std::unique_ptr<Operation>> operations;
    operations.push_back(std::move(operation));
    return std::make_unique<Command>(std::move(operations), nullptr, nullptr);
}
std::unique_ptr<Command> command(Journal &journal, int name, int polls) {
    return command(std::make_unique<FakeOperation>(journal, name, polls));
}

struct Fixture {
    std::atomic<int> polls{0};
    Journal journal;
    ProgressThread progress_thread{std::make_unique<CountingPoller>(polls), 0};
};

const Status abandoned = Status::failure(CL_TRANSFER_ABANDONED, "stopped");

}  // namespace

TEST_CASE("a command is not reported as running before it has its place among the messages") {
    std::atomic<cl_int> phase_before{CL_RUNNING};
    std::vector<std::unique_ptr<Operation>> operations;
    operations.push_back(std::make_unique<PlaceTaker>(phase_before));
    const std::shared_ptr<Record> record = operations.front()->record();
    Command command(std::move(operations), nullptr, nullptr);
    command.start({});
    CHECK(phase_before == CL_QUEUED);
    CHECK(record->state().phase == CL_RUNNING);
}

TEST_CASE("the progress thread completes every command, whatever its number of polls") {
    Fixture f;
    for (int i = 1; i <= 100; ++i) f.progress_thread.submit(command(f.journal, i, i % 7 + 1), {});
    CHECK(f.journal.wait_for(100).size() == 100);
    CHECK(f.progress_thread.wait_idle(20));
}

TEST_CASE("a failed wait list reaches the operation") {
    Fixture f;
    f.progress_thread.submit(command(f.journal, 5, 1), Status::failure(-14, "gate"));
    CHECK(f.journal.wait_for(1) == std::vector<int>{-5});
}

TEST_CASE("commands of several threads all end") {
    Fixture f;
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&f, t] {
                for (int i = 0; i < 250; ++i)
                    f.progress_thread.submit(command(f.journal, t * 1000 + i + 1, 3), {});
            });
    }
    CHECK(f.journal.wait_for(1000).size() == 1000);
}

TEST_CASE("a progress thread without commands polls nothing") {
    Fixture f;
    f.progress_thread.submit(command(f.journal, 1, 2), {});
    f.journal.wait_for(1);
    CHECK(f.progress_thread.wait_idle(20));
    const int before = f.polls;
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, std::chrono::milliseconds(50), [] { return false; });
    CHECK(f.polls - before <= 1);
}

TEST_CASE("sleeping commands are not polled with the others; the poller is asked for them") {
    Fixture f;
    constexpr int sleeping = 100;
    std::atomic<int> polls{0};
    std::vector<SleepingOperation *> operations;
    for (int i = 1; i <= sleeping; ++i) {
        auto operation = std::make_unique<SleepingOperation>(polls, f.journal, i);
        operations.push_back(operation.get());
        f.progress_thread.submit(command(std::move(operation)), {});
    }
    // This command starts after the sleeping ones.
    f.progress_thread.submit(command(f.journal, 1000, 200), {});
    CHECK(f.journal.wait_for(1) == std::vector<int>{1000});
    CHECK(polls <= 2 * sleeping);
    // Now the progress thread calls only the poller, because no command needs polling.
    const int asked = f.polls;
    while (f.polls < asked + 3) std::this_thread::yield();
    CHECK(polls <= 2 * sleeping);
    for (SleepingOperation *operation : operations) operation->end();
    CHECK(f.journal.wait_for(sleeping + 1).size() == sleeping + 1);
    CHECK(f.progress_thread.wait_idle(20));
}

TEST_CASE("a command that is woken while it falls asleep is polled again") {
    Fixture f;
    constexpr std::size_t rounds = 2000;
    std::deque<std::atomic<int>> polls(rounds);
    for (std::atomic<int> &polled : polls) {
        auto operation = std::make_unique<SleepingOperation>(polled, f.journal, 1);
        SleepingOperation *const told = operation.get();
        f.progress_thread.submit(command(std::move(operation)), {});
        while (polled == 0) {
        }
        told->end();
    }
    CHECK(f.journal.wait_for(rounds).size() == rounds);
}

TEST_CASE(
    "waiting for idleness gives up if nothing moves, and stopping ends the remaining commands") {
    Fixture f;
    f.progress_thread.submit(command(f.journal, 1, 0), {});
    CHECK_FALSE(f.progress_thread.wait_idle(0.05));
    f.progress_thread.stop(abandoned);
    CHECK(f.progress_thread.wait_idle(1));
    CHECK(pending_records().list().empty());
}

TEST_CASE("commands are accepted while the report of a stall waits for its reader") {
    std::array<int, 2> pipe_ends{};
    REQUIRE(pipe2(pipe_ends.data(), O_NONBLOCK) == 0);
    const auto [from, to] = pipe_ends;
    const std::array<char, 4096> filling{};
    while (write(to, filling.data(), filling.size()) > 0) {
    }
    fcntl(to, F_SETFL, 0);  // the next write blocks
    const int standard_error = dup(STDERR_FILENO);
    dup2(to, STDERR_FILENO);
    Journal journal;
    ProgressThread progress_thread(nullptr, 0.05);
    progress_thread.submit(command(journal, 1, 0), {});
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const auto submitted =
        std::async(std::launch::async, [&] { progress_thread.submit(command(journal, 2, 1), {}); });
    CHECK(submitted.wait_for(std::chrono::seconds(5)) == std::future_status::ready);
    std::string report;
    std::array<char, 4096> read_now;
    while (report.find("no progress for") == std::string::npos) {
        const ssize_t bytes = read(from, read_now.data(), read_now.size());
        if (bytes > 0) report.append(read_now.data(), static_cast<std::size_t>(bytes));
    }
    dup2(standard_error, STDERR_FILENO);
    for (const int end : {from, to, standard_error}) close(end);
    progress_thread.stop(abandoned);
}

TEST_CASE("a command with two operations ends when both have ended, with the first error") {
    Journal journal;
    std::vector<std::unique_ptr<Operation>> operations;
    operations.push_back(std::make_unique<FakeOperation>(journal, 1, 3));
    operations.push_back(std::make_unique<FakeOperation>(journal, 2, 1));
    Command both(std::move(operations), nullptr, nullptr);
    both.start({});
    CHECK(both.poll() == Progress::moved);
    CHECK(both.poll() == Progress::idle);
    CHECK(both.poll() == Progress::done);
    CHECK(journal.wait_for(2) == std::vector<int>{2, 1});
}
