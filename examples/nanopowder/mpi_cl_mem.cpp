#include "hosts.hpp"

namespace nanopowder {
namespace {

// MPI_CL_MEM: the peer receives into a device buffer. Messages progress while this thread computes.
void lead(Powder &powder, int steps) {
    const Queue copies = powder.make_queue();
    const int size = int(powder.matrix_size());
    std::vector<MPI_Request> sends(powder.ranks() - 1, MPI_REQUEST_NULL);
    const auto wait_for_sends = [&] {
        MPI_Waitall(int(sends.size()), sends.data(), MPI_STATUSES_IGNORE);
    };

    const auto compute_and_send = [&](int step) {
        powder.compute_matrix(step);
        wait_for_sends();  // one matrix at a time: two messages would share the link
        for (int rank = 1; rank < powder.ranks(); ++rank)
            MPI_Isend(powder.host_matrix(step), size, MPI_CL_MEM, rank, Powder::tag, powder.comm(),
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

// A receive into a buffer waits for the last kernel that used the buffer, and the next kernel waits
// for the receive, both without the host. Each buffer has a separate queue, so that a receive can
// be posted while the previous message is in flight.
void follow(Powder &powder, int steps) {
    const Queue messages[2] = {powder.make_queue(), powder.make_queue()};
    Event received[2];

    const auto receive = [&](int step, const Event &free) {
        if (step >= steps) return;
        const WaitList after{free.get()};
        check(clEnqueueRecvBuffer(messages[step % 2].get(), powder.matrix(step), CL_FALSE, 0,
                                  powder.matrix_size(), 0, Powder::tag, powder.comm(),
                                  after.count(), after.data(), received[step % 2].put()),
              "clEnqueueRecvBuffer");
    };

    receive(0, Event());
    receive(1, Event());
    for (int step = 0; step < steps; ++step) {
        const Event computed = powder.enqueue_step(step, received[step % 2]);
        receive(step + 2, computed);
        powder.gather();
    }
    powder.finish();
}

}  // namespace

void run_mpi_cl_mem(Powder &powder, int steps) {
    if (powder.rank() == 0)
        lead(powder, steps);
    else
        follow(powder, steps);
}

}  // namespace nanopowder
