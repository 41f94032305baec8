#include "pipeline/file_endpoint.hpp"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <latch>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "base/idle_cache.hpp"
#include "base/wakeup.hpp"
#include "pipeline/block_pipeline.hpp"

using namespace cldist;

namespace {

constexpr std::chrono::seconds limit{20};

// A file in memory. It records the calls, and fails or waits as the test requests.
class FakeFile final : public FileAccess {
public:
    std::shared_ptr<FileLane> the_lane;
    bool is_collective = false;
    bool at_once = false;
    Status begin_status;
    std::size_t good = ~std::size_t{0};  ///< bytes from the start that can be transferred
    std::vector<std::byte> content;
    std::latch *hold = nullptr;  ///< begin() waits for it

    [[nodiscard]] std::string name() const override { return "fake"; }
    [[nodiscard]] std::shared_ptr<FileLane> lane() const override { return the_lane; }
    [[nodiscard]] bool parallel_reads() const override { return at_once; }
    [[nodiscard]] bool collective() const override { return is_collective; }

    Status begin() override {
        if (hold != nullptr) hold->wait();
        note("begin");
        return begin_status;
    }
    void end() override { note("end"); }
    FileResult read(std::size_t offset, std::byte *to, std::size_t size) override {
        return move(offset, size,
                    [&](std::size_t count) { std::memcpy(to, content.data() + offset, count); });
    }
    FileResult write(std::size_t offset, const std::byte *from, std::size_t size) override {
        return move(offset, size,
                    [&](std::size_t count) { std::memcpy(content.data() + offset, from, count); });
    }

    [[nodiscard]] std::string journal() const {
        const std::lock_guard lock(mutex_);
        return journal_;
    }
    [[nodiscard]] std::size_t threads() const {
        const std::lock_guard lock(mutex_);
        return threads_.size();
    }

private:
    template <typename Copy>
    FileResult move(std::size_t offset, std::size_t size, Copy &&copy) {
        note(std::to_string(offset) + "+" + std::to_string(size));
        const std::size_t count = offset >= good ? 0 : std::min(size, good - offset);
        if (count != 0) copy(count);
        if (count == size && size != 0) return {count, {}};
        if (size == 0 && good != 0) return {0, {}};
        return {count, Status::failure(CL_FILE_ERROR, "as asked")};
    }
    void note(const std::string &what) {
        const std::lock_guard lock(mutex_);
        journal_ += (journal_.empty() ? "" : " ") + what;
        threads_.insert(std::this_thread::get_id());
    }

    mutable std::mutex mutex_;
    std::string journal_;
    std::set<std::thread::id> threads_;
};

// A device endpoint in host memory. Its blocks end at once, but fail from block `first_bad` on.
class FakeDevice final : public DeviceEndpoint {
public:
    explicit FakeDevice(std::size_t size) : memory(size) {}
    void start(const Block &) override {}
    void skip(const Block &) override {}
    Outcome ended(const Block &block) override {
        if (!block.skipped && block.index >= first_bad)
            return Status::failure(CL_OUT_OF_RESOURCES, "the device");
        return Status{};
    }
    std::byte *host(const Block &block) override { return memory.data() + block.offset; }

    std::vector<std::byte> memory;
    std::size_t first_bad = ~std::size_t{0};
};

// A transfer in blocks of 10 bytes. The thread that calls drive() drives it.
struct Transfer {
    Transfer(std::shared_ptr<FakeFile> the_file, Direction the_direction, bool calls_itself,
             Status gate = {}, std::size_t size = 40)
        : file(std::move(the_file)),
          direction(the_direction),
          plan{Path::mapped, 10, 3, false},
          device(size),
          record(std::make_shared<Record>(direction, "fake", size)),
          end(make_file_endpoint(file, direction, size, plan,
                                 {[w = wakeup] { w->wake(); }, calls_itself}, record)),
          pipeline(direction == Direction::to_file ? static_cast<Endpoint &>(device) : *end,
                   direction == Direction::to_file ? *end : static_cast<Endpoint &>(device), device,
                   size, plan, std::move(gate)) {
        for (std::size_t i = 0; i < size; ++i) device.memory[i] = std::byte(i + 1);
    }

    // Returns false if the transfer did not end in time because a wake-up was lost.
    bool drive() {
        const auto deadline = std::chrono::steady_clock::now() + limit;
        while (pipeline.poll() != Progress::done) {
            wakeup->wait_for(limit);
            if (std::chrono::steady_clock::now() > deadline) return false;
        }
        return true;
    }

    std::shared_ptr<FakeFile> file;
    Direction direction;
    Plan plan;
    FakeDevice device;
    std::shared_ptr<Record> record;
    std::shared_ptr<Wakeup> wakeup = std::make_shared<Wakeup>();
    std::shared_ptr<Endpoint> end;
    BlockPipeline pipeline;
};

std::shared_ptr<FakeFile> fake_file(std::shared_ptr<FileLane> lane = nullptr) {
    auto file = std::make_shared<FakeFile>();
    file->the_lane = std::move(lane);
    file->content.assign(40, std::byte{99});
    return file;
}

std::vector<std::byte> counted(std::size_t count, std::byte rest) {
    std::vector<std::byte> all(40, rest);
    for (std::size_t i = 0; i < count; ++i) all[i] = std::byte(i + 1);
    return all;
}

constexpr Direction both_directions[] = {Direction::to_file, Direction::from_file};

}  // namespace

TEST_CASE(
    "a transfer begins its file once, transfers block by block in order, and ends the file once") {
    for (const Direction direction : both_directions) {
        for (const bool calls_itself : {false, true}) {
            for (const bool with_lane : {false, true}) {
                const auto file = fake_file(with_lane ? std::make_shared<FileLane>() : nullptr);
                if (direction == Direction::from_file) file->content = counted(40, {});
                Transfer t(file, direction, calls_itself);
                if (direction == Direction::from_file) t.device.memory.assign(40, std::byte{99});
                REQUIRE(t.drive());
                CHECK(t.pipeline.status().ok());
                CHECK(t.pipeline.bytes_moved() == 40);
                CHECK(file->journal() == "begin 0+10 10+10 20+10 30+10 end");
                CHECK(file->content == counted(40, {}));
                CHECK(t.device.memory == counted(40, {}));
                if (with_lane) CHECK(file->threads() == 1);
                if (with_lane) CHECK_FALSE(file->the_lane->is_first(&t));
            }
        }
    }
}

TEST_CASE(
    "after a failed block no calls follow, earlier bytes are kept, and other bytes are unchanged") {
    for (const Direction direction : both_directions) {
        for (const bool calls_itself : {false, true}) {
            for (const bool with_lane : {false, true}) {
                for (const std::size_t good : {0U, 1U, 10U, 15U, 20U, 39U}) {
                    CAPTURE(good);
                    CAPTURE(calls_itself);
                    CAPTURE(with_lane);
                    const auto file = fake_file(with_lane ? std::make_shared<FileLane>() : nullptr);
                    file->good = good;
                    if (direction == Direction::from_file) file->content = counted(40, {});
                    Transfer t(file, direction, calls_itself);
                    if (direction == Direction::from_file)
                        t.device.memory.assign(40, std::byte{99});
                    REQUIRE(t.drive());
                    CHECK(t.pipeline.status().code == CL_FILE_ERROR);
                    CHECK(t.pipeline.bytes_moved() == good);
                    std::string calls = "begin";
                    for (std::size_t at = 0; at <= good; at += 10)
                        calls += " " + std::to_string(at) + "+10";
                    CHECK(file->journal() == calls + " end");
                    const auto &target =
                        direction == Direction::to_file ? file->content : t.device.memory;
                    CHECK(target == counted(good, std::byte{99}));
                }
            }
        }
    }
}

TEST_CASE("parallel reads that fail keep the bytes before the failure") {
    for (const bool calls_itself : {false, true}) {
        for (const std::size_t good : {0U, 15U, 40U}) {
            const auto file = fake_file();
            file->at_once = true;
            file->good = good;
            file->content = counted(40, {});
            Transfer t(file, Direction::from_file, calls_itself);
            t.device.memory.assign(40, std::byte{99});
            REQUIRE(t.drive());
            CHECK(t.pipeline.status().ok() == (good == 40));
            CHECK(t.pipeline.bytes_moved() == good);
            CHECK(t.device.memory == counted(good, std::byte{99}));
            CHECK(file->journal().starts_with("begin"));
            CHECK(file->journal().ends_with("end"));
        }
    }
}

TEST_CASE("a file that fails to begin gets no calls and is not ended") {
    for (const Direction direction : both_directions) {
        for (const bool calls_itself : {false, true}) {
            for (const bool at_once : {false, true}) {
                const auto file = fake_file(at_once ? nullptr : std::make_shared<FileLane>());
                file->at_once = at_once;
                file->begin_status = Status::failure(CL_FILE_ERROR, "as asked");
                Transfer t(file, direction, calls_itself);
                REQUIRE(t.drive());
                CHECK(t.pipeline.status().code == CL_FILE_ERROR);
                CHECK(t.pipeline.bytes_moved() == 0);
                CHECK(file->journal() == "begin");
            }
        }
    }
}

TEST_CASE("if the device fails, its earlier bytes are written and the file is ended") {
    for (const bool calls_itself : {false, true}) {
        for (const std::size_t bad : {0U, 2U}) {
            const auto file = fake_file(std::make_shared<FileLane>());
            Transfer t(file, Direction::to_file, calls_itself);
            t.device.first_bad = bad;
            REQUIRE(t.drive());
            CHECK(t.pipeline.status().code == CL_OUT_OF_RESOURCES);
            CHECK(t.pipeline.bytes_moved() == 10 * bad);
            CHECK(file->content == counted(10 * bad, std::byte{99}));
            // The failed transfer has left the lane.
            Transfer next(file, Direction::to_file, calls_itself);
            REQUIRE(next.drive());
            CHECK(next.pipeline.status().ok());
        }
    }
}

TEST_CASE("a collective file gets exactly one call, even after an earlier failure") {
    const Status failed = Status::failure(-14, "the wait list");
    struct Row {
        const char *what;
        Direction direction;
        Status gate;
        bool device_fails;
        std::size_t good;
        const char *journal;
        cl_int code;
    };
    for (const Row &row :
         {Row{"no failure", Direction::to_file, {}, false, 40, "begin 0+40 end", CL_SUCCESS},
          Row{"no failure", Direction::from_file, {}, false, 40, "begin 0+40 end", CL_SUCCESS},
          Row{"the wait list", Direction::to_file, failed, false, 40, "begin 0+0 end", -14},
          Row{"the wait list", Direction::from_file, failed, false, 40, "begin 0+0 end", -14},
          Row{"the device", Direction::to_file, {}, true, 40, "begin 0+0 end", CL_OUT_OF_RESOURCES},
          Row{"the device",
              Direction::from_file,
              {},
              true,
              40,
              "begin 0+40 end",
              CL_OUT_OF_RESOURCES},
          Row{"the file", Direction::to_file, {}, false, 7, "begin 0+40 end", CL_FILE_ERROR},
          Row{"the file", Direction::from_file, {}, false, 7, "begin 0+40 end", CL_FILE_ERROR}}) {
        for (const bool calls_itself : {false, true}) {
            CAPTURE(row.what);
            CAPTURE(row.journal);
            const auto file = fake_file(std::make_shared<FileLane>());
            file->is_collective = true;
            file->good = row.good;
            const std::size_t size = row.gate.ok() ? 40 : 0;
            auto record = std::make_shared<Record>(row.direction, "fake", size);
            const Plan plan{Path::mapped, 40, 1, false};
            FakeDevice device(40);
            if (row.device_fails) device.first_bad = 0;
            const auto wakeup = std::make_shared<Wakeup>();
            const auto end =
                make_file_endpoint(file, row.direction, size, plan,
                                   {[wakeup] { wakeup->wake(); }, calls_itself}, record);
            const bool writes = row.direction == Direction::to_file;
            BlockPipeline pipeline(writes ? static_cast<Endpoint &>(device) : *end,
                                   writes ? *end : static_cast<Endpoint &>(device), device, size,
                                   plan, row.gate);
            while (pipeline.poll() != Progress::done) wakeup->wait_for(limit);
            CHECK(file->journal() == row.journal);
            CHECK(pipeline.status().code == row.code);
        }
    }
}

TEST_CASE("transfers on one lane use the file one at a time, in the order of their creation") {
    for (const Direction direction : both_directions) {
        for (int itself = 0; itself < 4; ++itself) {
            CAPTURE(itself);
            const auto lane = std::make_shared<FileLane>();
            std::latch hold(1);
            const auto file = fake_file(lane);
            file->hold = &hold;
            // Each transfer is driven by its own thread, which makes the file calls itself or
            // leaves them to the lane's thread.
            Transfer first(file, direction, (itself & 1) != 0);
            Transfer second(file, direction, (itself & 2) != 0);
            bool ended[2] = {false, false};
            {
                const std::jthread late([&] { ended[1] = second.drive(); });
                const std::jthread early([&] { ended[0] = first.drive(); });
                hold.count_down();
            }
            CHECK(ended[0]);
            CHECK(ended[1]);
            CHECK(file->journal() ==
                  "begin 0+10 10+10 20+10 30+10 end begin 0+10 10+10 20+10 30+10 end");
        }
    }
}

TEST_CASE("a transfer that is given up in the queue of its lane lets later transfers pass") {
    const auto lane = std::make_shared<FileLane>();
    const auto file = fake_file(lane);
    auto first = std::make_unique<Transfer>(file, Direction::to_file, false);
    auto second = std::make_unique<Transfer>(file, Direction::to_file, false);
    Transfer third(file, Direction::to_file, false);
    CHECK(third.pipeline.poll() != Progress::done);
    second.reset();
    first.reset();
    REQUIRE(third.drive());
    CHECK(third.pipeline.status().ok());
    CHECK(file->journal() == "begin 0+10 10+10 20+10 30+10 end");
}

TEST_CASE(
    "a lane has one first transfer, notifies the next one, and skips a transfer that has left") {
    FileLane lane;
    const char who[4] = {};
    std::vector<int> told;
    for (int i = 0; i < 4; ++i) lane.enter(&who[i], [&told, i] { told.push_back(i); });
    CHECK(lane.is_first(&who[0]));
    CHECK_FALSE(lane.is_first(&who[1]));
    CHECK(told.empty());
    lane.leave(&who[1]);
    lane.leave(&who[1]);
    CHECK(told.empty());
    lane.leave(&who[0]);
    CHECK(told == std::vector<int>{2});
    CHECK(lane.is_first(&who[2]));
    lane.leave(&who[2]);
    lane.leave(&who[3]);
    CHECK(told == std::vector<int>{2, 3});
    CHECK_FALSE(lane.is_first(&who[3]));
}

TEST_CASE("equal keys share one lane while a user holds it") {
    const char keys[2] = {};
    const auto lane = FileLane::of(&keys[0]);
    CHECK(FileLane::of(&keys[0]) == lane);
    CHECK(FileLane::of(&keys[1]) != lane);
    FileLane::release_idle(0);
    CHECK(FileLane::of(&keys[0]) == lane);
}

TEST_CASE("a cache keeps held and recent entries, and creates nothing twice") {
    IdleCache<int, int> cache;
    int made = 0;
    const auto make = [&] { return std::make_shared<int>(++made); };
    const auto held = cache.get(1, make);
    const std::weak_ptr<int> other = cache.get(2, make);
    CHECK(cache.get(1, make) == held);
    CHECK(made == 2);
    cache.release_idle(1000);
    CHECK_FALSE(other.expired());
    cache.release_idle(0);
    CHECK(other.expired());
    CHECK(cache.get(1, make) == held);
    CHECK(*cache.get(2, make) == 3);
}

TEST_CASE("a cache whose maker throws is unchanged") {
    IdleCache<int, int> cache;
    CHECK_THROWS(cache.get(
        1, []() -> std::shared_ptr<int> { throw Error(CL_OUT_OF_RESOURCES, "as asked"); }));
    cache.release_idle(0);
    CHECK(*cache.get(1, [] { return std::make_shared<int>(5); }) == 5);
}

TEST_CASE("a single thread does its jobs in order, whichever threads submit them") {
    IoThreads thread(1);
    std::vector<int> done;
    std::set<std::thread::id> threads;
    std::latch all(100);
    for (int i = 0; i < 100; ++i)
        thread.run([&, i] {
            done.push_back(i);
            threads.insert(std::this_thread::get_id());
            all.count_down();
        });
    all.wait();
    CHECK(threads.size() == 1);
    for (int i = 0; i < 100; ++i) CHECK(done[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("at most as many jobs as threads run at once") {
    constexpr int most = 3;
    IoThreads threads(most);
    std::latch together(most);
    std::latch all(most * 4);
    std::atomic<int> running{0};
    std::atomic<int> highest{0};
    for (int i = 0; i < most * 4; ++i)
        threads.run([&, i] {
            const int now = ++running;
            for (int seen = highest; seen < now && !highest.compare_exchange_weak(seen, now);)
                continue;
            // The first jobs wait for each other, so that they run at once.
            if (i < most) together.arrive_and_wait();
            --running;
            all.count_down();
        });
    all.wait();
    CHECK(highest == most);
}

TEST_CASE("jobs submitted before the thread pool is destroyed are done") {
    auto all = std::make_shared<std::latch>(20);
    {
        IoThreads threads(2);
        for (int i = 0; i < 20; ++i) threads.run([all] { all->count_down(); });
    }
    all->wait();
    CHECK(all->try_wait());
}

TEST_CASE("a wake-up before the wait is not lost, and wakes once") {
    Wakeup wakeup;
    wakeup.wake();
    wakeup.wake();
    wakeup.wait();
    const auto begin = std::chrono::steady_clock::now();
    wakeup.wait_for(std::chrono::milliseconds(5));
    CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(5));
}
