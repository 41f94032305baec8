#include "events/engine.hpp"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace cldist;

namespace {

// What the operations of a test tell.
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

// Ends at the n-th poll, or, with n 0, never.
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

std::unique_ptr<Command> command(Journal &journal, int name, int polls) {
    std::vector<std::unique_ptr<Operation>> operations;
    operations.push_back(std::make_unique<FakeOperation>(journal, name, polls));
    return std::make_unique<Command>(std::move(operations), nullptr, nullptr);
}

struct Fixture {
    std::atomic<int> polls{0};
    Journal journal;
    Engine engine{std::make_unique<CountingPoller>(polls), 0};
};

const Status abandoned = Status::failure(CL_TRANSFER_ABANDONED, "stopped");

}  // namespace

TEST_CASE("the engine drives every command to its end, whatever its number of polls") {
    Fixture f;
    for (int i = 1; i <= 100; ++i) f.engine.submit(command(f.journal, i, i % 7 + 1), {});
    CHECK(f.journal.wait_for(100).size() == 100);
    CHECK(f.engine.wait_idle(20));
}

TEST_CASE("a failed gate reaches the operation") {
    Fixture f;
    f.engine.submit(command(f.journal, 5, 1), Status::failure(-14, "gate"));
    CHECK(f.journal.wait_for(1) == std::vector<int>{-5});
}

TEST_CASE("commands of several threads all end") {
    Fixture f;
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&f, t] {
                for (int i = 0; i < 250; ++i) f.engine.submit(command(f.journal, t * 1000 + i + 1, 3), {});
            });
    }
    CHECK(f.journal.wait_for(1000).size() == 1000);
}

TEST_CASE("an engine without commands polls nothing") {
    Fixture f;
    f.engine.submit(command(f.journal, 1, 2), {});
    f.journal.wait_for(1);
    CHECK(f.engine.wait_idle(20));
    const int before = f.polls;
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, std::chrono::milliseconds(50), [] { return false; });
    CHECK(f.polls - before <= 1);
}

TEST_CASE("waiting for idleness gives up when nothing moves, and stopping ends what is left") {
    Fixture f;
    f.engine.submit(command(f.journal, 1, 0), {});
    CHECK_FALSE(f.engine.wait_idle(0.05));
    f.engine.stop(abandoned);
    CHECK(f.engine.wait_idle(1));
    CHECK(pending_records().list().empty());
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
