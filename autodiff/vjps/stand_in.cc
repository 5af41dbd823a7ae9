#include <vector>

#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

// The gradients of what only stands in for an op are stood in for, too. Which values
// their formulas read is not known, so they read all that they may: the inputs, which
// are thereby kept, and the results' gradients. An input's gradient is taken to cost
// what the op does, as a product's is.
constinit const Vjp StandInVjp = Differentiable([](VjpContext& v) {
  std::vector<Value> operands;
  for (int i = 0; i < v.num_inputs(); ++i) operands.push_back(v.input(i));
  for (int r = 0; r < v.num_results(); ++r) {
    if (v.has_cotangent(r)) operands.push_back(v.cotangent(r));
  }
  for (int i = 0; i < v.num_inputs(); ++i) {
    if (!v.needs(i)) continue;
    const TensorType& type = v.input_type(i);
    v.Contribute(i, StandIn(operands, type.dtype, {&type.shape, 1},
                            v.attrs().Float("flops"))[0]);
  }
});

}  // namespace stowage
