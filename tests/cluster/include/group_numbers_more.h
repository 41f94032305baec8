#ifndef GROUP_NUMBERS_MORE_H
#define GROUP_NUMBERS_MORE_H
#define ALL_GROUPS() ((int)get_num_groups(0))
int more_of_groups(void) { return 1000 * ALL_GROUPS(); }
#endif
