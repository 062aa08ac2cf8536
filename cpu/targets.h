// Names the instruction sets for which the CPU backend is compiled. Include this file before
// Highway's headers.
//
// Scalable vectors cannot be elements of arrays, so Arm machines that have them use NEON.
// Processors with SSSE3 and without SSE4 were made in 2006 and 2007. They get the scalar code,
// which saves the time of compiling for them.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
