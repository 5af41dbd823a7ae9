#ifndef STOWAGE_IR_PARAMETER_COUNT_H_
#define STOWAGE_IR_PARAMETER_COUNT_H_

// How many parameters a graph has, as people count them.
//
//   ParameterCount(*BuildModel("gpt2-124m", ModelPurpose::kTrain)) == 124439808

#include <cstdint>

#include "ir/graph.h"

namespace stowage {

/// Elements of all params of `graph`; of a matrix in rows of blocks (ir/weight_type.h),
/// the numbers that its blocks hold. Linear.
int64_t ParameterCount(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_PARAMETER_COUNT_H_
