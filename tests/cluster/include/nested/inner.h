#define OF_INNER get_group_id(0)
