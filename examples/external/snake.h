#ifndef OWN_SNAKE_H_
#define OWN_SNAKE_H_

// Defines Snake, an op that Stowage does not have. Snake is the activation x + sin(a x)^2 / a, for
// periodic functions (Ziyin et al., "Neural networks fail to learn periodic functions", 2020).

#include "stowage/stowage.h"

namespace own {

/// Returns x + sin(a x)^2 / a, elementwise. `x` must have a float type, and `a` must be above 0.
stowage::Value Snake(stowage::Value x, double a,
                     stowage::SourceLoc loc = stowage::SourceLoc::Current());

}  // namespace own

#endif  // OWN_SNAKE_H_
