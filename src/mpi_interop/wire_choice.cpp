#include "mpi_interop/wire_choice.hpp"

#include <array>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "base/log.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist {
namespace {

constexpr const char *wire_key = "cldist_wire";

// See WireOfDuplicates.
thread_local std::optional<Wire> wire_of_duplicates;

void *to_attribute(Wire wire) { return reinterpret_cast<void *>(static_cast<std::intptr_t>(wire)); }
Wire from_attribute(void *value) {
    return static_cast<Wire>(reinterpret_cast<std::intptr_t>(value));
}

// MPI calls this function when a communicator is duplicated, also without blocking.
int copy_attribute(MPI_Comm, int, void *, void *value, void *copied, int *flag) {
    *static_cast<void **>(copied) = wire_of_duplicates ? to_attribute(*wire_of_duplicates) : value;
    *flag = 1;
    return MPI_SUCCESS;
}

// An attribute holds the choice, because MPI implementations drop hints that they don't know.
int wire_keyval() {
    static const int keyval = [] {
        int made = MPI_KEYVAL_INVALID;
        check_mpi(PMPI_Comm_create_keyval(&copy_attribute, MPI_COMM_NULL_DELETE_FN, &made, nullptr),
                  "MPI_Comm_create_keyval");
        return made;
    }();
    return keyval;
}

void report_unknown(const std::string &value) {
    static std::mutex mutex;
    static auto &reported = *new std::set<std::string>;
    {
        const std::lock_guard lock(mutex);
        if (!reported.insert(value).second) return;
    }
    log_warning(
        "the info key {} has the value '{}', which is ignored; expected 'plain' or 'cldist'",
        wire_key, value);
}

}  // namespace

std::optional<Wire> wire_in(MPI_Info info) {
    if (info == MPI_INFO_NULL) return std::nullopt;
    std::array<char, MPI_MAX_INFO_VAL + 1> text{};
    int found = 0;
    check_mpi(PMPI_Info_get(info, wire_key, MPI_MAX_INFO_VAL, text.data(), &found), "MPI_Info_get");
    if (found == 0) return std::nullopt;
    const std::string value = text.data();
    if (value == "plain") return Wire::plain;
    if (value == "cldist") return Wire::cldist;
    report_unknown(value);
    return std::nullopt;
}

Wire wire_of(MPI_Comm comm) {
    void *value = nullptr;
    int found = 0;
    check_mpi(PMPI_Comm_get_attr(comm, wire_keyval(), &value, &found), "MPI_Comm_get_attr");
    if (found != 0) return from_attribute(value);
    MPI_Info info = MPI_INFO_NULL;
    check_mpi(PMPI_Comm_get_info(comm, &info), "MPI_Comm_get_info");
    const Wire wire = wire_in(info).value_or(Wire::cldist);
    PMPI_Info_free(&info);
    return wire;
}

void set_wire(MPI_Comm comm, Wire wire) {
    check_mpi(PMPI_Comm_set_attr(comm, wire_keyval(), to_attribute(wire)), "MPI_Comm_set_attr");
}

WireOfDuplicates::WireOfDuplicates(MPI_Comm comm, MPI_Info info) {
    const Wire wire = wire_in(info).value_or(Wire::cldist);
    // Without an attribute, MPI would not call copy_attribute().
    if (const Wire own = wire_of(comm); own != wire) set_wire(comm, own);
    wire_of_duplicates = wire;
}

WireOfDuplicates::~WireOfDuplicates() { wire_of_duplicates.reset(); }

}  // namespace cldist
