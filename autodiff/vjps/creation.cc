#include "autodiff/vjp.h"

namespace stowage {

STOWAGE_ZERO_DERIVATIVE(Constant);
STOWAGE_ZERO_DERIVATIVE(Fill);

}  // namespace stowage
