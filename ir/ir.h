#ifndef STOWAGE_IR_IR_H_
#define STOWAGE_IR_IR_H_

// The umbrella header of ir/, which provides graphs and the functions that build, verify, print and
// parse them.
//
//   GraphBuilder g("mlp");
//   ...
//   Result<Graph> graph = g.Finish();
//   std::string text = ToText(*graph);

#include "ir/attrs.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/composites.h"
#include "ir/control_flow.h"
#include "ir/element_groups.h"
#include "ir/fused.h"
#include "ir/graph.h"
#include "ir/graph_bytes.h"
#include "ir/graph_copy.h"  // IWYU pragma: export
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/ops/shape_rules.h"
#include "ir/tensor_type.h"
#include "ir/text.h"
#include "ir/uses.h"
#include "ir/verify.h"
#include "ir/weight_type.h"  // IWYU pragma: export
#include "ir/windows.h"

#endif  // STOWAGE_IR_IR_H_
