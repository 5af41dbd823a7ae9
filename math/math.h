#ifndef STOWAGE_MATH_MATH_H_
#define STOWAGE_MATH_MATH_H_

// The package's umbrella header: formulas that every backend shares.

#include "math/activations.h"   // IWYU pragma: export
#include "math/optimizer.h"     // IWYU pragma: export
#include "math/philox.h"        // IWYU pragma: export
#include "math/portable.h"      // IWYU pragma: export
#include "math/random.h"        // IWYU pragma: export
#include "math/resampling.h"    // IWYU pragma: export
#include "math/rope.h"          // IWYU pragma: export
#include "math/small_floats.h"  // IWYU pragma: export
#include "math/split_master.h"  // IWYU pragma: export
#include "math/trigonometry.h"  // IWYU pragma: export

#endif  // STOWAGE_MATH_MATH_H_
