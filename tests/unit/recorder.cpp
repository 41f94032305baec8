// The records of a central host's calls, passed from the calling to the sending thread.
#include "cluster/calls/recorder.hpp"

#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace cldist::cluster;

namespace {

using Records = std::vector<std::byte>;

/// A record whose length and contents depend on its number.
void put(RecordWriter &writer, std::uint64_t number) {
    const std::string text(number % 97, static_cast<char>('a' + number % 26));
    writer.clear();
    writer.number(number);
    writer.number(text.size());
    writer.bytes(text.data(), text.size());
}

void check_next(RecordReader &reader, std::uint64_t number) {
    CHECK(reader.number() == number);
    const auto text = reader.bytes(reader.number());
    CHECK(text.size() == number % 97);
    for (const std::byte byte : text)
        CHECK(static_cast<char>(byte) == static_cast<char>('a' + number % 26));
}

}  // namespace

TEST_CASE("a reader returns exactly the numbers and bytes that the writer stored") {
    const std::vector<std::uint64_t> numbers{0,
                                             1,
                                             127,
                                             128,
                                             300,
                                             1U << 31U,
                                             std::uint64_t{1} << 63U,
                                             std::numeric_limits<std::uint64_t>::max()};
    RecordWriter writer;
    for (const std::uint64_t number : numbers) writer.number(number);
    CHECK(writer.record().size() == 1 + 1 + 1 + 2 + 2 + 5 + 10 + 10);
    writer.bytes("end", 3);
    RecordReader reader(writer.record());
    for (const std::uint64_t number : numbers) CHECK(reader.number() == number);
    CHECK(static_cast<char>(reader.bytes(3)[2]) == 'd');
    CHECK(reader.empty());
    CHECK_THROWS_AS(reader.number(), std::out_of_range);
    CHECK_THROWS_AS(reader.bytes(1), std::out_of_range);
    const Records endless(11, std::byte{0xff});
    CHECK_THROWS_AS(RecordReader(endless).number(), std::out_of_range);
}

TEST_CASE("records of many threads arrive complete and in order, however slow the reader is") {
    constexpr std::uint64_t count = 20'000;
    for (const std::size_t room : {std::size_t{1}, std::size_t{512}, std::size_t{1} << 20U}) {
        CAPTURE(room);
        Recorder recorder(room);
        std::mutex order;  // like the platform's lock, which orders calls
        std::uint64_t next = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; ++i)
            threads.emplace_back([&] {
                RecordWriter writer;
                for (;;) {
                    const std::lock_guard lock(order);
                    if (next == count) return;
                    put(writer, next++);
                    recorder.append(writer.record());
                }
            });
        std::thread closer([&] {
            for (std::thread &thread : threads) thread.join();
            recorder.close();
        });
        std::uint64_t taken = 0;
        std::size_t largest = 0;
        Records records;
        for (bool more = true; more;) {
            more = taken % 2 == 0 ? recorder.wait_and_take(records) : recorder.take(records);
            largest = std::max(largest, records.size());
            for (RecordReader reader(records); !reader.empty();) check_next(reader, taken++);
        }
        closer.join();
        CHECK(taken == count);
        CHECK(largest <= std::max<std::size_t>(room, 128));
    }
}

TEST_CASE("a writer waits while the recorder is full") {
    Recorder recorder(4);
    std::atomic<int> appended = 0;
    const Records two(2);
    std::thread thread([&] {
        for (int i = 0; i < 4; ++i) {
            recorder.append(two);
            ++appended;
        }
    });
    Records records;
    while (appended < 2) std::this_thread::yield();
    // The third writer waits. No event reports that, so the test waits for a moment.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(appended == 2);
    recorder.take(records);
    CHECK(records.size() == 4);
    thread.join();
    CHECK(appended == 4);
    recorder.take(records);
    CHECK(records.size() == 4);
}
