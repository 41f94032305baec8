#include "hosts.hpp"

namespace nanopowder {
namespace {

void lead(Powder &powder, int steps) {
    const Queue copies = powder.make_queue();
    const int size = int(powder.matrix_size());
    std::vector<MPI_Request> sends(powder.ranks() - 1, MPI_REQUEST_NULL);
    const auto wait_for_sends = [&] {
        MPI_Waitall(int(sends.size()), sends.data(), MPI_STATUSES_IGNORE);
    };

    const auto compute_and_send = [&](int step) {
        // Messages progress only during MPI calls.
        powder.compute_matrix(step, [&] {
            int all_done;
            MPI_Testall(int(sends.size()), sends.data(), &all_done, MPI_STATUSES_IGNORE);
        });
        wait_for_sends();  // one matrix at a time: two messages would share the link
        for (int rank = 1; rank < powder.ranks(); ++rank)
            MPI_Isend(powder.host_matrix(step), size, MPI_BYTE, rank, Powder::tag, powder.comm(),
                      &sends[rank - 1]);
    };

    compute_and_send(0);
    for (int step = 0; step < steps; ++step) {
        powder.enqueue_step(step, powder.write_matrix(copies, step));
        if (step + 1 < steps) compute_and_send(step + 1);
        powder.gather();
    }
    wait_for_sends();
    powder.finish();
}

void follow(Powder &powder, int steps) {
    const Queue copies = powder.make_queue();
    const int size = int(powder.matrix_size());
    MPI_Request receives[2];

    const auto receive = [&](int step) {
        if (step < steps)
            MPI_Irecv(powder.host_matrix(step), size, MPI_BYTE, 0, Powder::tag, powder.comm(),
                      &receives[step % 2]);
    };

    receive(0);
    receive(1);
    for (int step = 0; step < steps; ++step) {
        MPI_Wait(&receives[step % 2], MPI_STATUS_IGNORE);
        powder.enqueue_step(step, powder.write_matrix(copies, step));
        powder.gather();
        receive(step + 2);  // gather() has waited for the write from this memory
    }
    powder.finish();
}

}  // namespace

void run_baseline(Powder &powder, int steps) {
    if (powder.rank() == 0)
        lead(powder, steps);
    else
        follow(powder, steps);
}

}  // namespace nanopowder
