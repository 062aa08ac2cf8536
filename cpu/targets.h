// The instruction sets that the CPU backend is compiled for: included before Highway's own headers.
//
// Scalable vectors cannot be held in arrays; NEON serves Arm machines that have them. Processors
// with SSSE3 and without SSE4 are of 2006 and 2007: they get the scalar code, and all others save
// the time of compiling theirs.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
