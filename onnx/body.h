#ifndef STOWAGE_ONNX_BODY_H_
#define STOWAGE_ONNX_BODY_H_

// The graph inside a node of control flow on its way into a graph: a builder of its
// own, which nodes are converted into while it is there, and what it reads from outside.
//
// A body of ONNX reads any name that is in force around it; one of ours is handed what it
// reads (ir/bodies.h). So a name found outside stands for an operand of the body's own,
// which becomes a leaf when the body computes with it, and not when it only asks for its
// type, or for what it is known to hold. Names found further out pass through all bodies
// between.
//
//   Body body("loop", context);     // nodes go into it from here on
//   Operand* x = body.Capture(outside);
//   ...                             // ValueOf(*x, context) declares a leaf
//   body.Leave();                   // and into the graph around it again
//   for (const auto& [leaf, outer] : body.reads()) ...  // what to hand in

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/builder.h"
#include "onnx/node.h"

namespace stowage::onnx {

class Body {
 public:
  struct Read {
    Value leaf;      // of this body
    Operand* outer;  // of the graph around it
  };

  /// Enters the body; `context` must outlive this.
  Body(const std::string& name, ImportContext& context);
  /// Leaves it, where that has not been done.
  ~Body() { Leave(); }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  /// Nodes go into the graph around the body from here on.
  void Leave();

  GraphBuilder& graph() { return graph_; }

  /// A leaf that the node hands in itself, called like `name` where that is free.
  Value Leaf(const std::string& name, const TensorType& type);

  /// Calls a value of the body so, where the name is free and it was not named before.
  void Name(const std::string& name, Value value);

  /// What stands in here for an operand of the graph around this body; the same for
  /// the same. It lives as long as the body.
  Operand* Capture(Operand* outer);
  /// Likewise of an operand of the model's own graph, through all bodies around this.
  Operand* CaptureOfModel(Operand* operand);
  /// The leaf for an operand that Capture made.
  Value LeafFor(const Operand& captured);
  /// The leaves of captured operands, in the order in which they were first read.
  const std::vector<Read>& reads() const { return reads_; }

  /// Says that this is the body of a loop, and which trip, an i64 scalar, is run.
  void SetTrip(Value trip, int64_t trips);
  /// The number by which nodes in here draw, another one in each trip of each step.
  Value StepOfDraws(Operand* step_of_model);

 private:
  ImportContext& context_;
  GraphBuilder graph_;
  GraphBuilder* const outer_graph_;
  Body* const outer_;  // null within the model's own graph
  bool inside_ = true;
  std::deque<Operand> operands_;
  std::unordered_map<const Operand*, Operand*>
      captured_;                                      // by what it stands for
  std::unordered_map<const Operand*, Value> leaves_;  // likewise
  std::vector<Read> reads_;
  std::unordered_set<ValueId> named_;
  Value trip_;
  int64_t trips_ = 1;
  Operand* step_ = nullptr;
};

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_BODY_H_
