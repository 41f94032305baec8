#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

int main(int argc, char **argv) {
    doctest::Context context(argc, argv);
    if (const char *filter = std::getenv("CLDIST_TEST_FILTER");
        filter != nullptr && *filter != '\0')
        context.addFilter("test-case", ("*" + std::string(filter) + "*").c_str());
    return context.run();
}
