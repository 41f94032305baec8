#include "events/record.hpp"

#include <memory>

#include <doctest/doctest.h>
#include <mpi.h>

#include "base/clock.hpp"

using namespace cldist;

TEST_CASE("a record reports what its transfer waits for") {
    Record send(Direction::send, 3, 3, 42, 100);
    CHECK(describe(send, now_ns())
              .find("send to rank 3, tag 42, 100 bytes: waits for the commands before it in its "
                    "queue") != std::string::npos);
    send.started();
    CHECK(describe(send, now_ns()).find("moved 0 of 100 bytes, for") != std::string::npos);
    send.moved(60);
    CHECK(describe(send, now_ns()).find("moved 60 of 100 bytes") != std::string::npos);

    Record recv(Direction::recv, MPI_ANY_SOURCE, MPI_ANY_SOURCE, MPI_ANY_TAG, 100);
    recv.started();
    CHECK(describe(recv, now_ns())
              .find("recv from any source, any tag, 100 bytes: waits for a matching send") !=
          std::string::npos);
    recv.matched(1, 7, 20);
    Record failed(Direction::recv, 1, 1, 7, 20);
    failed.finished(Status::failure(CL_MESSAGE_NOT_RECOGNIZED, "was not sent by a cldist command"));
    CHECK(
        describe(failed, now_ns())
            .find("failed: was not sent by a cldist command: CL_MESSAGE_NOT_RECOGNIZED (-1206)") !=
        std::string::npos);
    CHECK(describe(recv, now_ns()).find("recv from rank 1, tag 7, 20 bytes: moved 0 of 20") !=
          std::string::npos);
}

TEST_CASE("a record of an MPI request reports how long it has been pending") {
    Record request(Direction::request, MPI_ANY_SOURCE, MPI_UNDEFINED, MPI_ANY_TAG, 0);
    CHECK(describe(request, request.created_ns + 3'100'000'000U) ==
          "MPI request, pending for 3.1 s");
    Record event(Direction::event, MPI_ANY_SOURCE, MPI_UNDEFINED, MPI_ANY_TAG, 0);
    CHECK(describe(event, event.created_ns) == "MPI request of an event, pending for 0.0 s");
}

TEST_CASE("a stage spans all its blocks") {
    Record record(Direction::send, 0, 0, 0, 10);
    const std::uint64_t early = now_ns();
    record.stage_done(Stage::device, early + 5);
    record.stage_done(Stage::device, early);
    const auto times = record.state().stages.at(static_cast<std::size_t>(Stage::device));
    CHECK(times.start == early);
    CHECK(times.end >= early);
    CHECK(times.blocks == 2);
    CHECK(record.state().stages.at(static_cast<std::size_t>(Stage::message)).blocks == 0);
}

TEST_CASE("the first failure of a record is kept") {
    Record record(Direction::recv, 0, 0, 0, 10);
    record.failed(Status::failure(-5, "first"));
    record.finished(Status::failure(-6, "second"));
    CHECK(record.state().status.code == -5);
    CHECK(record.state().phase == CL_COMPLETE);
}

TEST_CASE("a stall is reported once, and again only after progress") {
    PendingRecords pending;
    const auto record = std::make_shared<Record>(Direction::send, 1, 1, 2, 3);
    pending.add(record);
    const std::uint64_t begin = record->created_ns;
    constexpr std::uint64_t second = 1'000'000'000;
    CHECK(pending.stalled(5, begin + second).empty());
    CHECK(pending.stalled(5, begin + 6 * second).size() == 1);
    CHECK(pending.stalled(5, begin + 60 * second).empty());
    pending.note_progress(begin + 60 * second);
    CHECK(pending.stalled(5, begin + 61 * second).empty());
    CHECK(pending.stalled(5, begin + 66 * second).size() == 1);
    CHECK(pending.stalled(0, begin + 600 * second).empty());
    pending.note_progress(begin + 70 * second);
    pending.remove(*record);
    CHECK(pending.stalled(5, begin + 600 * second).empty());
}
