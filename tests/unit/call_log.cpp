/// The log of API calls, and how it finds the first difference between two processes.

#include "cluster/calls/call_log.hpp"

#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace cldist::cluster;

namespace {

constexpr Call transfer(const char *function) {
    return {function,
            Comparison::always,
            {calls::object("queue"), calls::object("buffer"), calls::scalar("blocking"),
             calls::scalar("offset"), calls::scalar("size"), calls::out("ptr"),
             calls::count("num_events"), calls::wait_list("events", "num_events"),
             calls::out("event"), calls::code("errcode_ret")}};
}
constexpr Call read_call = transfer("clEnqueueReadBuffer");
constexpr Call write_call = transfer("clEnqueueWriteBuffer");
constexpr Call finish_call{"clFinish", Comparison::always, {calls::object("queue")}};
constexpr Call status_call{
    "clSetUserEventStatus", Comparison::always, {calls::object("event"), calls::status("status")}};
constexpr Call platforms_call{"clGetPlatformIDs", Comparison::always, {}};

/// A log of `count` different calls. Call number `odd` differs from the same call in other logs.
std::unique_ptr<CallLog> log_of(std::uint64_t count, std::uint64_t odd = 0) {
    auto log = std::make_unique<CallLog>();
    for (std::uint64_t n = 1; n <= count; ++n) log->record<finish_call>(n == odd ? 0 : n);
    return log;
}

Difference difference_of(const CallLog &a, const CallLog &b) {
    return first_difference(a.known(), b.known());
}

}  // namespace

TEST_CASE("a call is printed with the names of its arguments") {
    CallLog log;
    log.record<read_call>(3U, std::size_t{7}, true, std::size_t{0}, std::size_t{4096}, 5, 1U << 8U);
    log.record<platforms_call>();
    log.record<finish_call>(hash_of("data"));
    log.record<finish_call>(-1);
    log.record<program_end>();
    log.record<status_call>(1, -5);
    log.record<status_call>(2, 0);
    CHECK(log.text(1) ==
          "clEnqueueReadBuffer(queue 3, buffer 7, blocking 1, offset 0, size 4096, ptr given, "
          "events 5, event NULL)");
    CHECK(log.text(2) == "clGetPlatformIDs()");
    CHECK(log.text(3) == "clFinish(queue 0x855b556730a34a05)");
    CHECK(log.text(4) == "clFinish(queue 0xffffffffffffffff)");
    CHECK(log.text(5) == "the end of the program");
    CHECK(log.text(0).empty());
    CHECK(log.text(6) == "clSetUserEventStatus(event 1, status CL_OUT_OF_RESOURCES (-5))");
    CHECK(log.text(7) == "clSetUserEventStatus(event 2, status 0)");
    CHECK(log.text(8).empty());
}

TEST_CASE(
    "the hash of calls depends on functions, arguments, argument positions and the order of "
    "calls") {
    const auto hash_of_calls = [](auto &&...calls) {
        CallLog log;
        (calls(log), ...);
        return log.last().hash;
    };
    const auto finish = [](std::uint64_t queue) {
        return [=](CallLog &log) { log.record<finish_call>(queue); };
    };
    const auto read = [](int offset, int size) {
        return [=](CallLog &log) { log.record<read_call>(1, 2, true, offset, size, 0, 0); };
    };
    const auto write = [](CallLog &log) { log.record<write_call>(1, 2, true, 0, 1, 0, 0); };
    CHECK(hash_of_calls(finish(1), finish(2)) == hash_of_calls(finish(1), finish(2)));
    CHECK(hash_of_calls(finish(1), finish(2)) != hash_of_calls(finish(2), finish(1)));
    CHECK(hash_of_calls(finish(1)) != hash_of_calls(finish(1), finish(1)));
    CHECK(hash_of_calls(finish(1)) != hash_of_calls(finish(std::uint64_t{1} << 63 | 1U)));
    CHECK(hash_of_calls(read(0, 1)) != hash_of_calls(read(1, 0)));
    CHECK(hash_of_calls(read(0, 1)) != hash_of_calls(write));
    constexpr Call other_name{"clFinish", Comparison::always, {calls::object("event")}};
    CHECK(finish_call.hash != other_name.hash);
}

TEST_CASE("the log keeps the last calls, more hashes, and the hashes of older checkpoints") {
    constexpr std::uint64_t count = CallLog::hash_ring + 5 * CallLog::ring + 100;
    const auto log = log_of(count);
    const std::uint64_t first = count - CallLog::ring + 2;
    CHECK(log->last().number == count);
    CHECK(log->text(first) == "clFinish(queue " + std::to_string(first) + ")");
    CHECK(log->hash_after(first) == log_of(first)->last().hash);
    CHECK(log->text(first - 1).empty());
    const std::uint64_t oldest = count - CallLog::hash_ring + 2;
    CHECK(log->hash_after(oldest) == log_of(oldest)->last().hash);
    CHECK_FALSE(log->hash_after(oldest - 1));
    CHECK_FALSE(log->hash_after(count + 1));
    CHECK_FALSE(log->hash_after(2 * count));
    CHECK(log->hash_after(0) == 0);
    CHECK(log->hash_after(CallLog::checkpoint) == log_of(CallLog::checkpoint)->last().hash);

    const auto known = log->known();
    CHECK(known.front() == CallHash{0, 0});
    CHECK(known[1].number == CallLog::checkpoint);
    CHECK(known.back() == log->last());
    CHECK(known.size() == 1 + (first - 1) / CallLog::checkpoint + CallLog::ring - 1);
}

TEST_CASE("the oldest checkpoints are forgotten") {
    constexpr std::uint64_t kept = CallLog::checkpoints - 1;
    const auto log = log_of((kept + 2) * CallLog::checkpoint);
    CHECK_FALSE(log->hash_after(2 * CallLog::checkpoint));
    CHECK(log->hash_after(3 * CallLog::checkpoint) == log_of(3 * CallLog::checkpoint)->last().hash);
}

TEST_CASE("the log records whether calls come from several threads") {
    CallLog log;
    for (int i = 0; i < 2; ++i) log.record<finish_call>(1);
    CHECK_FALSE(log.threads().are_several());
    std::thread([&] { log.record<finish_call>(1); }).join();
    CHECK(log.threads().are_several());
}

TEST_CASE("the log records which threads made the calls") {
    static thread_local std::uint32_t thread = 1;
    const auto log_of_threads = [](std::vector<std::uint32_t> threads) {
        auto log = std::make_unique<CallLog>();
        log->threads().ask_for_thread = [] { return thread; };
        for (const std::uint32_t id : threads) {
            if (id == thread) {
                log->record<finish_call>(1);
                continue;
            }
            std::thread([&] {
                thread = id;
                log->record<finish_call>(1);
            }).join();
        }
        return log;
    };
    const auto log = log_of_threads({1, 1, 2, 1, 1});
    const auto other = log_of_threads({1, 1, 2, 1, 3});
    const auto first = log_of_threads({2, 1, 2, 1, 1});
    CHECK(log->last() == first->last());
    for (const std::uint64_t until : {1U, 2U, 3U, 4U}) {
        CHECK(log->threads().hash_until(until) == other->threads().hash_until(until));
        CHECK(log->threads().hash_until(until) != first->threads().hash_until(until));
    }
    CHECK(log->threads().hash_until(5) == log->threads().hash_until(4));
    CHECK(log->threads().hash_until(5) != other->threads().hash_until(5));
    CHECK(log->threads().hash_until(0) == 0);
}

TEST_CASE("the first call that differs is found") {
    const auto check_exact = [](const CallLog &a, const CallLog &b, std::uint64_t call) {
        for (const Difference &difference : {difference_of(a, b), difference_of(b, a)}) {
            CHECK(difference.exact());
            CHECK(difference.differ_at == call);
        }
    };
    check_exact(*log_of(100), *log_of(100, 1), 1);
    check_exact(*log_of(100), *log_of(100, 57), 57);
    check_exact(*log_of(100), *log_of(100, 100), 100);
    check_exact(*log_of(57), *log_of(100, 57), 57);
    // The first difference is at the end of the ring; the call before it is a checkpoint.
    constexpr std::uint64_t first = 2 * CallLog::checkpoint + 1;
    constexpr std::uint64_t count = first + CallLog::ring - 2;
    check_exact(*log_of(count), *log_of(count, first), first);
    check_exact(*log_of(first), *log_of(count, first), first);
    CHECK_FALSE(difference_of(*log_of(count + 1), *log_of(count + 1, first)).exact());
}

TEST_CASE("for an old difference, the log reports the range of calls that contains it") {
    constexpr std::uint64_t checkpoint = CallLog::checkpoint;
    const auto later = difference_of(*log_of(100'000), *log_of(100'000, checkpoint + 10));
    CHECK(later.equal_until == checkpoint);
    CHECK(later.differ_at == 2 * checkpoint);
    // One program has ended, at the position of a call that the other log has forgotten.
    const auto ended = log_of(checkpoint + 10);
    ended->record<program_end>();
    const auto more = difference_of(*ended, *log_of(100'000));
    CHECK(more.equal_until == checkpoint);
    CHECK(more.differ_at == checkpoint + 11);
}

TEST_CASE("a difference is reported in the order of the ranks") {
    const std::string text =
        "clEnqueueReadBuffer(queue 2, buffer 5, blocking 0, offset 0, size 4096)";
    const std::string advice =
        ". A program that runs on the cluster platform must make the same calls in all processes. "
        "`cldist run --host-mode central` runs the program in one process only.";
    const auto message = [&](const std::string &a, const std::string &b,
                             const Difference &difference = {56, 57}) {
        const std::string told = difference_message(difference, 0, a, 3, b);
        CHECK(told == difference_message(difference, 3, b, 0, a));
        const std::string begin = "the processes' calls differ: ";
        REQUIRE(told.size() > begin.size() + advice.size());
        CHECK(told.substr(0, begin.size()) == begin);
        CHECK(told.substr(told.size() - advice.size()) == advice);
        return told.substr(begin.size(), told.size() - begin.size() - advice.size());
    };
    CHECK(
        message(text, "clEnqueueReadBuffer(queue 2, buffer 5, blocking 0, offset 0, size 8192)") ==
        "rank 0's call 57 is " + text +
            ", rank 3's is clEnqueueReadBuffer(queue 2, buffer 5, blocking 0, offset 0, size 8192) "
            "(argument size)");
    CHECK(
        message(text, "clEnqueueReadBuffer(queue 3, buffer 5, blocking 0, offset 8, size 4096)") ==
        "rank 0's call 57 is " + text +
            ", rank 3's is clEnqueueReadBuffer(queue 3, buffer 5, blocking 0, offset 8, size 4096) "
            "(arguments queue, "
            "offset)");
    CHECK(message(text, "clFinish(queue 2)") ==
          "rank 0's call 57 is " + text + ", rank 3's is clFinish(queue 2)");
    CHECK(message(text, "the end of the program") ==
          "rank 0's call 57 is " + text + ", rank 3's program ended after call 56");
    CHECK(message("the end of the program", text) ==
          "rank 0's program ended after call 56, rank 3's call 57 is " + text);
    CHECK(difference_message({56, 57, 1}, 0, text, 3, text)
              .ends_with("must be the same in all processes. `cldist run --host-mode central` runs "
                         "the program in "
                         "one process only."));
    const auto advised = [&](Start start) {
        return difference_message({56, 57}, 0, text, 3, "", start);
    };
    CHECK(advised(Start::without_answers)
              .find("CLDIST_HOST_WRAP is off. With `cldist run -n N PROGRAM`") !=
          std::string::npos);
    CHECK(
        advised(Start::own_mpi)
            .ends_with("`cldist run --host-mode central` does not support programs that use MPI."));
    CHECK(advised(Start::own_mpi).find("runs the program in one process only") ==
          std::string::npos);
    CHECK(message("", text) == "call 57 of rank 0 and rank 3, which is too old to be identified");
    CHECK(message("", "", {4096, 8192}) ==
          "one of the calls 4097 to 8192 of rank 0 and rank 3, which is too old to be identified");
}

TEST_CASE("a reader never mistakes one call for another") {
    CallLog log;
    constexpr std::uint64_t count = 1'000'000;
    std::thread writer([&] {
        for (std::uint64_t n = 1; n <= count; ++n) log.record<read_call>(n, n, true, n, n, n, 0);
    });
    std::uint64_t told = 0;
    CallHash last{0, 0};
    const auto check = [&](std::uint64_t number) {
        const std::string text = log.text(number);
        if (text.empty()) return;
        ++told;
        const std::string n = std::to_string(number);
        if (text != "clEnqueueReadBuffer(queue " + n + ", buffer " + n + ", blocking 1, offset " +
                        n + ", size " + n + ", ptr given, events " + n + ", event given)")
            FAIL("call " << n << " is told as " << text);
    };
    while (last.number < count) {
        const CallHash now = log.last();
        CHECK(now.number >= last.number);
        if (const auto again = log.hash_after(last.number)) CHECK(*again == last.hash);
        check(now.number);
        // This call will soon be forgotten.
        if (now.number > CallLog::ring) check(now.number - CallLog::ring + 3);
        last = now;
    }
    writer.join();
    CHECK(told > 0);
    CHECK(log.known().back() == log.last());
}
