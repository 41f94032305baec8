/// Work shares of devices, computed from the times of their sub-ranges.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "splitting/shares.hpp"

using namespace cldist::splitting;

namespace {

using numbers = std::vector<double>;

double sum(const numbers &shares) { return std::accumulate(shares.begin(), shares.end(), 0.0); }

/// The duration of a launch on devices with the given rates.
double time_of(const numbers &shares, const numbers &rates) {
    double time = 0;
    for (std::size_t i = 0; i < shares.size(); ++i)
        time = std::max(time, shares[i] / sum(shares) / rates[i]);
    return time;
}

}  // namespace

TEST_CASE("shares are proportional to rates, and their sum is 1") {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> exponent(-3, 9);
    for (int round = 0; round < 1000; ++round) {
        numbers rates(2 + random() % 7);
        for (double &rate : rates) rate = std::pow(10, exponent(random));
        // One much higher rate makes a change worthwhile.
        rates[0] = 100 * *std::max_element(rates.begin(), rates.end());
        const numbers shares = shares_by_rates(numbers(rates.size(), 1), rates);
        CHECK(sum(shares) == doctest::Approx(1));
        for (std::size_t i = 0; i < rates.size(); ++i) {
            CHECK(shares[i] * sum(rates) == doctest::Approx(rates[i]));
            for (std::size_t j = 0; j < i; ++j)
                CHECK((rates[i] < rates[j]) == (shares[i] < shares[j]));
        }
        CHECK(time_of(shares, rates) * sum(rates) == doctest::Approx(1));
    }
    const numbers shares = shares_by_rates(numbers{1, 1}, numbers{100, 1});
    CHECK(shares[0] == doctest::Approx(100 / 101.0));
    CHECK(shares[1] == doctest::Approx(1 / 101.0));
}

TEST_CASE("shares change only if a launch then takes at least a tenth less time") {
    const numbers before{0.5, 0.5};
    CHECK(shares_by_rates(before, numbers{1, 1}) == before);
    CHECK(shares_by_rates(before, numbers{1.2, 1}) == before);
    CHECK(shares_by_rates(before, numbers{1, 1.2}) == before);
    CHECK(shares_by_rates(before, numbers{1.3, 1}) != before);
    CHECK(shares_by_rates(before, numbers{1, 1.3}) != before);
    std::mt19937 random(2);
    std::uniform_real_distribution<double> rate(0.5, 2);
    for (int round = 0; round < 2000; ++round) {
        numbers shares(2 + random() % 5);
        numbers rates(shares.size());
        for (double &share : shares) share = rate(random);
        for (double &each : rates) each = rate(random);
        const numbers now = shares_by_rates(shares, rates);
        if (now == shares)
            CHECK(time_of(now, rates) * sum(rates) <= 1 / 0.9 + 1e-9);
        else
            CHECK(time_of(now, rates) <= 0.9 * time_of(shares, rates) + 1e-9);
    }
}

TEST_CASE("shares stay if a rate is unknown") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const double unknown : {0.0, -1.0, nan, HUGE_VAL})
        CHECK(shares_by_rates(numbers{2, 1, 1}, numbers{unknown, 30, 1}) == numbers{2, 1, 1});
    CHECK(shares_by_rates(numbers{}, numbers{}).empty());
}

TEST_CASE("a device without share gets one by its rate") {
    const numbers shares = shares_by_rates(numbers{1, 0}, numbers{1, 1});
    CHECK(shares[0] == doctest::Approx(0.5));
    CHECK(shares[1] == doctest::Approx(0.5));
}

TEST_CASE("a rate is the median of the last sub-ranges, without those of zero time") {
    MedianRate rate;
    CHECK(rate.median() == 0);
    rate.add(100, 0);
    rate.add(0, 0);
    rate.add(0, 1);
    CHECK(rate.median() == 0);
    rate.add(100, 2);
    CHECK(rate.median() == 50);
    rate.add(100, 1000);
    rate.add(10, 0.2);
    CHECK(rate.median() == 50);
    for (int i = 0; i < 8; ++i) rate.add(100, 1);
    CHECK(rate.median() == 100);
    for (int i = 0; i < 15; ++i) rate.add(300, 1);
    CHECK(rate.median() == 300);
    rate.clear();
    CHECK(rate.median() == 0);
}

TEST_CASE(
    "rates are compared after launches 4, 8, 16 and so on of a kind, then after each 1024th") {
    AdaptedShares shares({1, 1});
    const std::size_t first = shares.add_kind();
    const std::size_t second = shares.add_kind();
    std::vector<int> times;
    for (int launch = 1; launch <= 4096; ++launch)
        if (shares.count_launch(first, 1)) times.push_back(launch);
    CHECK(times == std::vector<int>{4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3072, 4096});
    for (int launch = 1; launch <= 3; ++launch) CHECK_FALSE(shares.count_launch(second, 1));
    CHECK(shares.count_launch(second, 1));
}

namespace {

/// Shares for a single kind of launch.
struct launches : AdaptedShares {
    explicit launches(numbers first) : AdaptedShares(std::move(first)) { add_kind(); }

    bool find(const numbers &rates) {
        std::ignore = count_launch(0, 100);
        return adapt(rates);
    }
};

}  // namespace

TEST_CASE(
    "shares adapt to new rates, old rates count half, and shares stay if no new rate is known") {
    launches shares({1, 1});
    CHECK_FALSE(shares.find({0, 0}));
    CHECK(shares.shares() == numbers{1, 1});
    CHECK(shares.version() == 0);
    CHECK(shares.find({3, 1}));
    CHECK(shares.version() == 1);
    CHECK(shares.shares()[0] == doctest::Approx(0.75));
    CHECK_FALSE(shares.find({0, 0}));
    CHECK_FALSE(shares.find({3.1, 0}));
    CHECK(shares.version() == 1);
    CHECK(shares.shares()[0] == doctest::Approx(0.75));
    // The slow device is now as fast as the other: its share grows over several steps.
    CHECK(shares.find({1, 1}));
    CHECK(shares.shares()[0] > 0.6);
    CHECK(shares.shares()[0] < 0.7);
    for (int i = 0; i < 10; ++i) shares.find({1, 1});
    CHECK(time_of(shares.shares(), {1, 1}) <= 0.5 / 0.9 + 1e-3);
}

TEST_CASE("a device without known rate counts by its share") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const double unknown : {0.0, -1.0, nan, HUGE_VAL}) {
        CAPTURE(unknown);
        launches one({1, 1, 1});
        CHECK(one.find({unknown, 3, 1}));
        CHECK(one.shares()[0] == doctest::Approx(2 / 6.0));
        CHECK(one.shares()[1] == doctest::Approx(3 / 6.0));
        CHECK(one.shares()[2] == doctest::Approx(1 / 6.0));
        launches two({2, 1});
        CHECK_FALSE(two.find({unknown, unknown}));
        CHECK_FALSE(two.find({unknown, 5}));
        // Now the second device's rate is known.
        CHECK(two.find({5, unknown}));
        CHECK(two.shares()[0] == doctest::Approx(0.5));
    }
}

TEST_CASE("all kinds of launches have the same shares, which minimise the program's total time") {
    AdaptedShares shares({1, 1});
    const std::size_t heavy = shares.add_kind();
    const std::size_t light = shares.add_kind();
    const auto launch = [&](double heavy_items, double light_items) {
        std::ignore = shares.count_launch(heavy, heavy_items);
        std::ignore = shares.count_launch(light, light_items);
    };
    // The launches take 1 and 2 s on the first device, 3 and 1 s on the second.
    launch(300, 200);
    CHECK(shares.adapt(numbers{300, 100, 100, 200}));
    CHECK(shares.shares()[0] == doctest::Approx(4 / 7.0));
    // A kind that stops being launched counts for less each time.
    for (int i = 0; i < 20; ++i) {
        launch(300, 0);
        shares.adapt(numbers{300, 100, 0, 0});
    }
    CHECK(time_of(shares.shares(), {300, 100}) <= 1 / 400.0 / 0.9 + 1e-3);
    // A third kind, which one device has not run yet, changes nothing.
    const std::size_t third = shares.add_kind();
    std::ignore = shares.count_launch(third, 1e6);
    const numbers before = shares.shares();
    CHECK_FALSE(shares.adapt(numbers{0, 0, 0, 0, 50, 0}));
    CHECK(shares.shares() == before);
}

TEST_CASE("a measurement that is wrong by a factor of a thousand is corrected after a few more") {
    for (const double wrong : {1000.0, 0.001}) {
        CAPTURE(wrong);
        launches shares({1, 1});
        CHECK(shares.find({wrong, 1}));
        for (int i = 0; i < 6; ++i) shares.find({1, 1});
        CHECK(time_of(shares.shares(), {1, 1}) <= 0.5 * 1.25);
    }
}

TEST_CASE("shares do not drift if measurements vary by a tenth") {
    std::mt19937 random(3);
    std::uniform_real_distribution<double> noise(0.9, 1.1);
    launches shares({1, 1, 1});
    for (int i = 0; i < 1000; ++i)
        shares.find({5 * noise(random), 1 * noise(random), 1 * noise(random)});
    CHECK(shares.version() <= 2);
    CHECK(shares.shares()[0] == doctest::Approx(5 / 7.0).epsilon(0.05));
}
