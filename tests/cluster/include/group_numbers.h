#pragma once
#include "group_numbers_more.h"
// Used by the test of included files (tests/cluster/splitting.cpp).
int first_of_group(int size) { return (int)get_group_id(0) * size + more_of_groups(); }
