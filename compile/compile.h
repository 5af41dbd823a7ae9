#ifndef STOWAGE_COMPILE_COMPILE_H_
#define STOWAGE_COMPILE_COMPILE_H_

// A planned step as one C11 file: for microcontrollers, and for products that should not
// link a library.
//
// The file has one block of memory, the plan's arena, and calls of kernels at fixed
// addresses in it. Only kernels that the step uses are in it, written for its shapes. It
// allocates nothing, prints nothing, has no recursion, and calls the functions of math.h
// that its header names.
//
//   Result<Plan> plan = PlanMemory(step, {.alignment = kCAlignment, .device = NeedsOfC()});
//   Result<CompiledStep> c = CompileToC(step, *plan, {.prefix = "mlp"});
//   // in the application:
//   //   mlp_init(42);
//   //   memcpy(mlp_input_x(), images, sizeof images);
//   //   *mlp_input_lr() = 0.1f;
//   //   int code = mlp_step();
//   //   printf("%f\n", *mlp_output_loss());

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

/// The alignment of slots for C: enough for vectors of 128 bits.
inline constexpr Bytes kCAlignment = 16;

/// The scratch memory of the kernels in C, and the ops that they fuse: plans of steps to be
/// compiled are made with this.
DeviceNeeds NeedsOfC();

/// The params of `names` that no node of `step` updates, for PlanOptions::outside: a plan has
/// no memory for them, and the file has them as constants.
std::set<std::string> FrozenParams(const Graph& step,
                                   const std::set<std::string>& names);

struct CompileOptions {
  /// What all names begin with: a C identifier.
  std::string prefix = "step";
  /// The name under which the source includes the header.
  std::string header = "step.h";
  /// Whether the application provides the arena, as a pointer that every function takes;
  /// otherwise the file has it.
  bool caller_arena = false;
  /// The bytes, row-major, of params and states that do not begin with their Init, by name:
  /// weights of a file. The C file has them as data: what the plan has outside of the arena
  /// (PlanOptions::outside) as constants that are read where they are, others as initial
  /// values.
  std::map<std::string, std::string> contents = {};
};

struct CompiledStep {
  std::string source, header;
  Bytes arena = 0;   // of the plan
  Bytes slow = 0;    // of what the plan offloads, a second block
  Bytes flash = 0;   // of contents
  Bytes stack = 0;   // a bound, without the functions of math.h
  int kernels = 0;   // functions
  int launches = 0;  // calls of them
};

/// A program of the file: the function `PREFIX_NAME`.
struct CProgram {
  std::string name;  // a C identifier: "step", "evaluate"
  const Graph& graph;
  const Plan& plan;
};

/// Writes several programs over one arena, the training step first. Their params and states
/// are its own: plans share its WeightLayout. A program's inputs are lost when another one
/// runs, or gets inputs. Errors as below, and kInvalidArgument where a param is not of the
/// step, or is at another address.
Result<CompiledStep> CompileToC(std::span<const CProgram> programs,
                                const CompileOptions& options = {});

/// Writes `graph`, planned by `plan`, as the program "step". Errors, kInvalidArgument: a prefix that is no C
/// identifier; the plan is not for the graph, or has less scratch memory than NeedsOfC; ops,
/// types or initial values that cannot be written in C, all of them in one message; contents
/// that are not as long as their param, or lack one that is outside of the arena. Linear in nodes and in bytes of constants.
Result<CompiledStep> CompileToC(const Graph& graph, const Plan& plan,
                                const CompileOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_COMPILE_COMPILE_H_
