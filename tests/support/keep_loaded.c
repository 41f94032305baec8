/* In builds with AddressSanitizer nothing is unloaded, so that leaks of MPI's and OpenCL's plug-ins keep the name of
 * their library, which lsan.supp goes by. */
#include <stddef.h>

int dlclose(void *handle);
int dlclose(void *handle) { return handle == NULL; }
