#ifndef OWN_SNAKE_H_
#define OWN_SNAKE_H_

// Snake, x + sin(a x)^2 / a, an activation for what repeats itself (Ziyin et al.,
// "Neural networks fail to learn periodic functions", 2020): an op that Stowage does
// not have.

#include "stowage/stowage.h"

namespace own {

/// x + sin(a x)^2 / a for each element of x, of a float type; a is above 0.
stowage::Value Snake(stowage::Value x, double a,
                     stowage::SourceLoc loc = stowage::SourceLoc::Current());

}  // namespace own

#endif  // OWN_SNAKE_H_
