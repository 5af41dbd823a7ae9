#include "autodiff/vjp.h"

namespace stowage {

STOWAGE_ZERO_DERIVATIVE(RandomUniform);
STOWAGE_ZERO_DERIVATIVE(RandomNormal);

}  // namespace stowage
