// NPB's EP: makes Gaussian deviates from pairs of random numbers that lie in the unit circle. Each
// work-item takes PAIRS pairs of one sequence. Each work-group leaves a tally: the sums of both
// deviates, then the numbers of pairs whose larger deviate is between 0 and 1, 1 and 2, ..., 9 and
// 10. `first` is the number of the first work-item among those of all devices.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void gaussian_pairs(global double *tallies, ulong first)
{
    local double numbers[GROUP];
    double tally[TALLY] = {0.0};
    ulong x = random_after(271828183UL, 2 * PAIRS * (first + get_global_id(0)));
    for (uint pair = 0; pair < PAIRS; ++pair) {
        const double u = 2.0 * next_random(&x) - 1.0;
        const double v = 2.0 * next_random(&x) - 1.0;
        const double square = u * u + v * v;
        if (square > 1.0)
            continue;
        const double factor = sqrt(-2.0 * log(square) / square);
        tally[0] += factor * u;
        tally[1] += factor * v;
        tally[2 + (uint)(factor * fmax(fabs(u), fabs(v)))] += 1.0;
    }
    for (uint i = 0; i < TALLY; ++i) {
        const double sum = group_sum(tally[i], numbers);
        if (get_local_id(0) == 0)
            tallies[get_group_id(0) * TALLY + i] = sum;
    }
}
