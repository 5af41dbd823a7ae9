#ifndef STOWAGE_COMPILE_FILE_PARTS_H_
#define STOWAGE_COMPILE_FILE_PARTS_H_

// The parts of a generated file: memory, constants and initial values, kernels, the bodies of
// programs, and the functions through which an application accesses values.
//
//   const Constants constants(graph, plan);
//   constants.NameOf("embed.weight");  // "frozen_0"
//   const Memory memory(programs, options);
//   KernelSet kernels;
//   const StepText step = WriteStep(graph, plan, memory.placed(0), memory, constants, &kernels);
//   CompiledStep file = WriteFile(programs, options);  // all of it

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "compile/compile.h"
#include "compile/kernel.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "planner/plan.h"

namespace stowage::compile {

// --- Memory (memory.cc) ---

/// A block of memory of the file: the arena, a region, or that of offloaded values.
struct MemoryBlock {
  std::string name = {};  // of its array or parameter: "arena", "region_sram"
  std::string constant = {};  // of its bytes: "ARENA_BYTES", without the prefix
  std::string section = {};   // the macro of its section attribute, if any
  std::string comment = {};   // of the constant
  Bytes bytes = 0;
  bool is_parameter = false;  // whether functions get its address
};

/// The memory that the programs of a file share.
class Memory {
 public:
  /// Both must outlive this.
  Memory(std::span<const CProgram> programs, const CompileOptions& options);

  const std::vector<MemoryBlock>& blocks() const { return blocks_; }
  /// The bytes of the arena or of all regions.
  Bytes arena() const;
  Bytes slow() const { return blocks_.back().bytes; }
  /// Where a placement has the buffers of a program; null without one.
  const PlacedPlan* placed(size_t program) const;

  /// The block of offloaded values, of a region, or of the arena if there are none.
  const std::string& NameOf(bool on_host, int32_t region) const;
  /// "arena + 256": the first byte of buffer `buffer` of a program, which is not outside, and
  /// `offset` bytes.
  std::string AddressOf(size_t program, int32_t buffer, Bytes offset = 0) const;

  /// The parameters of a function: blocks, and then `more`. `qualifier` is "const " or "".
  std::string Parameters(std::string_view more = "",
                         std::string_view qualifier = "") const;
  /// Statements that mark the parameters that `body` does not mention as unused.
  std::string UnusedIn(std::string_view body) const;

 private:
  std::span<const CProgram> programs_;
  const CompileOptions& options_;
  std::vector<MemoryBlock> blocks_;  // the last one of offloaded values
};

// --- Constants and initial values (initial_values.cc) ---

/// Frozen params outside the arena (PlanOptions::outside) as constant data of the file, which is
/// in flash and takes no RAM.
class Constants {
 public:
  /// The constants of the training step, numbered in the order of its params.
  Constants(const Graph& graph, const Plan& plan);

  /// The name of the param's array; empty for a param in the arena.
  std::string NameOf(std::string_view param) const;
  /// The names of the arrays, by param.
  const std::map<std::string, std::string, std::less<>>& names() const {
    return names_;
  }

  /// The definitions of the arrays. Precondition: `contents` has the bytes of each.
  std::string Text(const std::map<std::string, std::string>& contents) const;

 private:
  std::map<std::string, std::string, std::less<>> names_;
  Bytes alignment_;
};

/// The function that fills params and states before the first step.
///
///   first_normal_f32(AT(f32, arena + 0), 100352, 0x1F2E..., 0.05, seed);  /* fc1.w */
struct InitialText {
  std::string functions;  // definitions that the body calls
  std::string body;       // uses `uint64_t seed`
};

/// Elements are the same functions of seed, name and index as those of Session::Initialize
/// (runtime/values.h), so that a compiled step starts from the same values. Params in
/// `contents` start from those bytes; constants are omitted.
InitialText WriteInitialValues(
    const Graph& graph, const Plan& plan, const Memory& memory,
    const Constants& constants,
    const std::map<std::string, std::string>& contents);

// --- Kernels (kernel_set.cc) ---

/// The call of a node's kernel.
struct KernelCall {
  std::string name;
  std::vector<std::string> parameters;
  bool can_fail = false;
  DType real = DType::kF32;  // of scratch memory
};

/// The kernels of a file: nodes whose functions have the same text share one.
///
/// Nodes of bf16 and f16 whose op accumulates in its results are widened, as in the CPU
/// backend (cpu/kernel.h): they compute on f32 copies of their operands and results, in
/// workspace, and round once at the end.
///
///   static void layer_norm_2(const bf16 *x0, ..., bf16 *y0, f32 *scratch) {
///     for (...) scratch[i] = bfloat16_to_float(x0[i]);
///     layer_norm_1(scratch, ..., scratch + 64, scratch + 128);
///     for (...) y0[i] = float_to_bfloat16(scratch[128 + i]);
///   }
///
///   const KernelCall call = kernels.Add(graph, node, layouts);
///   call.name;        // "matmul_1"
///   call.parameters;  // "x0", "x1", "y0"
class KernelSet {
 public:
  /// `simd` is CompileOptions::simd.
  explicit KernelSet(int simd = 0) : simd_(simd) {}

  /// Precondition: OpInC has the op.
  KernelCall Add(const Graph& graph, const Node& node, const Layouts& layouts);

  /// The definitions, in the order in which they were first needed.
  const std::string& text() const { return text_; }
  int count() const { return static_cast<int>(names_.size()); }
  /// The most stack that the arrays of one kernel take.
  Bytes stack() const { return stack_; }

 private:
  KernelCall AddKernel(const Kernel& kernel, const std::string& types);

  const int simd_;
  std::string text_;
  std::map<std::string, std::string> names_;  // by the text after the name
  std::map<OpKind, int> counts_;
  Bytes stack_ = 0;
};

/// Elements of `real` of a node's workspace, copies included.
int64_t ScratchOf(const Graph& graph, const Node& node, int simd = 0);

// --- Programs (step_writer.cc) ---

/// The body of a program's function: the launches of the plan's stream, in order.
///
///   /* fc1: mlp.cc:12 */
///   matmul_1(AT(f32, arena + 0), AT(f32, arena + 401408), AT(f32, arena + 532480));
///
/// A loop is a for statement, a cond a chain of if statements; a body accesses memory outside
/// it through pointers that are set for each iteration.
struct StepText {
  std::string body;  // indented by two spaces
  int launches = 0;
  bool can_fail = false;  // then it uses `int status`
};

/// Buffers are in the arena, or where `placed` has them, if it is not null. Precondition: every
/// op is in OpInC.
StepText WriteStep(const Graph& graph, const Plan& plan,
                   const PlacedPlan* placed, const Memory& memory,
                   const Constants& constants, KernelSet* kernels);

/// `text` as part of a C comment.
std::string InComment(std::string_view text);

// --- The file (file_writer.cc) ---

/// The source and the header: types, memory, helpers, kernels, the functions of initial values,
/// programs, saving and loading, and accessors. Precondition: the checks of CompileToC.
CompiledStep WriteFile(std::span<const CProgram> programs,
                       const CompileOptions& options);

/// Whether `text` is a C identifier.
bool IsIdentifier(std::string_view text);
std::string Upper(std::string_view text);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_FILE_PARTS_H_
