#include "autodiff/vjp.h"

namespace stowage {

STOWAGE_ZERO_DERIVATIVE(Constant);
STOWAGE_ZERO_DERIVATIVE(Fill);
STOWAGE_ZERO_DERIVATIVE(Iota);

}  // namespace stowage
