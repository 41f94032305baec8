// Runs the cases in all processes. In a job of several processes, a process whose case fails ends
// at once: it may have left the case while the other processes continue in it.
#define DOCTEST_CONFIG_IMPLEMENT
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include <doctest/doctest.h>

#include "tested_platform.hpp"

namespace {

// The name of the running case, for the handler of SIGALRM.
const char *running = "";

void end_stuck_case(int) {
    for (const char *const text : {"not done in time: ", running, "\n"})
        static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text)));
    std::_Exit(1);
}

const char *variable(const char *name) {
    const char *const value = std::getenv(name);
    return value != nullptr ? value : "";
}

unsigned case_seconds() {
    const char *const value = variable("CLDIST_TEST_TIMEOUT");
    return *value != '\0' ? static_cast<unsigned>(std::atoi(value)) : 60;
}

bool is_one_of_several() {
    return std::string(variable("OMPI_COMM_WORLD_SIZE")) > "1" || *variable("PMI_RANK") != '\0';
}

// Ends the process if a case fails or exceeds its time limit.
struct watch : doctest::IReporter {
    explicit watch(const doctest::ContextOptions &) {}
    void report_query(const doctest::QueryData &) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats &) override {}
    void test_case_start(const doctest::TestCaseData &data) override {
        running = data.m_name;
        alarm(case_seconds());
    }
    void test_case_reenter(const doctest::TestCaseData &) override {}
    void test_case_end(const doctest::CurrentTestCaseStats &stats) override {
        alarm(0);
        if (stats.failure_flags != 0 && is_one_of_several()) {
            std::cout.flush();
            std::_Exit(1);
        }
    }
    void test_case_exception(const doctest::TestCaseException &) override {}
    void subcase_start(const doctest::SubcaseSignature &) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData &) override {}
    void log_message(const doctest::MessageData &) override {}
    void test_case_skipped(const doctest::TestCaseData &) override {}
};
REGISTER_LISTENER("watch", 0, watch);

}  // namespace

int main(int argc, char **argv) {
    cluster_test::skip_without_pocl();
    std::signal(SIGALRM, end_stuck_case);
    doctest::Context context(argc, argv);
    if (const std::string filter = variable("CLDIST_TEST_FILTER"); !filter.empty())
        context.addFilter("test-case", ("*" + filter + "*").c_str());
    // All processes run the same cases; only rank 0 reports successes.
    const std::string rank = std::string(variable("OMPI_COMM_WORLD_RANK")) + variable("PMI_RANK");
    if (!rank.empty() && rank != "0") context.setOption("minimal", true);
    return context.run();
}
