#ifndef STOWAGE_GPU_CHOSEN_BODY_H_
#define STOWAGE_GPU_CHOSEN_BODY_H_

// What a branch's index says, as the kernels read it that tell the host of it
// (gpu/step_record.h) or the graph (gpu/graph_choice.h).
//
//   const uint32_t body = ChosenBody(p.index);

#include <cstddef>
#include <cstdint>

#include "gpu/simt.h"
#include "ir/tensor_type.h"

namespace stowage::gpu {

/// A scalar of i32, i64 or bool, in the memory of the device, that stands for one of so
/// many bodies.
struct BodyIndex {
  const std::byte* data;
  DType dtype;
  int64_t bodies;
  FaultSlot fault;
};

/// The body, true being the second; where there is none of this number, `bodies`, and the
/// launch has a bad index. For one thread.
STOWAGE_DEVICE uint32_t ChosenBody(const BodyIndex& index) {
  int64_t body = 0;
  if (index.dtype == DType::kI64) {
    body = *reinterpret_cast<const int64_t*>(index.data);
  } else if (index.dtype == DType::kI32) {
    body = *reinterpret_cast<const int32_t*>(index.data);
  } else {
    body = *reinterpret_cast<const uint8_t*>(index.data) != 0 ? 1 : 0;
  }
  if (body < 0 || body >= index.bodies) {
    ReportFault(index.fault);
    body = index.bodies;
  }
  return static_cast<uint32_t>(body);
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CHOSEN_BODY_H_
