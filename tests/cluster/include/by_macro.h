#if __OPENCL_C_VERSION__ >= 200
#define STEP 4
#else
#define STEP 1
#endif
