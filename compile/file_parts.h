#ifndef STOWAGE_COMPILE_FILE_PARTS_H_
#define STOWAGE_COMPILE_FILE_PARTS_H_

// Generates the sections of a C file (compile/compile.h): memory, constants and initial values,
// kernels, the bodies of programs, and the functions through which an application accesses values.
//
//   const Constants constants(graph, plan);
//   constants.NameOf("embed.weight");  // "frozen_0"
//   const Memory memory(programs, options);
//   KernelSet kernels;
//   const StepText step = WriteStep(graph, plan, memory.placed(0), memory, constants, &kernels);
//   CompiledStep file = WriteFile(programs, options);  // the whole file

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

/// A block of memory of the file: the arena, a region, or the block of offloaded values.
struct MemoryBlock {
  std::string name = {};      // of the array or parameter: "region_sram"
  std::string constant = {};  // for the size, without prefix: "ARENA_BYTES"
  std::string section = {};   // the macro of a section attribute, if any
  std::string comment = {};   // the comment on the constant
  Bytes bytes = 0;
  bool is_parameter = false;  // whether functions receive the address
};

/// The memory that the programs of a file share.
class Memory {
 public:
  /// Computes the blocks that `programs` need. Both arguments must outlive this object.
  Memory(std::span<const CProgram> programs, const CompileOptions& options);

  const std::vector<MemoryBlock>& blocks() const { return blocks_; }
  /// Returns the size of the arena, or the sum of the sizes of all regions.
  Bytes arena() const;
  /// Returns the size of the block of offloaded values.
  Bytes slow() const { return blocks_.back().bytes; }
  /// Returns the placement of the buffers of program number `program`, or null if the options have
  /// no placement.
  const PlacedPlan* placed(size_t program) const;

  /// Returns the name of the block of offloaded values if `on_host` is true. Otherwise, returns the
  /// name of the block of region number `region`, or of the arena if there is no placement.
  const std::string& NameOf(bool on_host, int32_t region) const;
  /// Returns a C expression for the address `offset` bytes after the start of a buffer of program
  /// number `program`, such as "arena + 256". The region of the buffer must not be
  /// Region::kOutside.
  std::string AddressOf(size_t program, int32_t buffer, Bytes offset = 0) const;

  /// Returns the parameter list of a C function: the blocks that are parameters, with the type
  /// qualifier `qualifier` ("const " or ""), followed by `more`.
  std::string Parameters(std::string_view more = "",
                         std::string_view qualifier = "") const;
  /// Returns statements that mark the parameters that `body` does not mention as unused.
  std::string UnusedIn(std::string_view body) const;

 private:
  std::span<const CProgram> programs_;
  const CompileOptions& options_;
  std::vector<MemoryBlock> blocks_;  // the last one is for offloaded values
};

// --- Constants and initial values (initial_values.cc) ---

/// The constants of a file: the frozen params outside the arena (PlanOptions::outside). Their data
/// is stored in flash memory and uses no RAM.
class Constants {
 public:
  /// Finds the constants of the training step `graph`, planned as `plan`, and numbers them in the
  /// order of its params.
  Constants(const Graph& graph, const Plan& plan);

  /// Returns the name of the C array of `param`, or "" if `param` is not a constant.
  std::string NameOf(std::string_view param) const;
  /// Returns the names of the arrays, by the name of the param.
  const std::map<std::string, std::string, std::less<>>& names() const {
    return names_;
  }

  /// Returns the definitions of the arrays. `contents` must contain the bytes of each constant.
  std::string Text(const std::map<std::string, std::string>& contents) const;

 private:
  std::map<std::string, std::string, std::less<>> names_;
  Bytes alignment_;
};

/// The code that fills params and states before the first step.
///
///   first_normal_f32(AT(f32, arena + 0), 100352, 0.05, UINT64_C(22...), seed);  /* fc1.w */
struct InitialText {
  std::string functions;  // definitions of functions and data that `body` uses
  std::string body;       // reads `uint64_t seed`
};

/// Returns the code that sets the initial values of params and states. An element is the same
/// function of seed, name and index as in Session::Initialize (runtime/values.h), so a compiled
/// step starts from the same values as a session. Params and states in `contents` instead start
/// from these bytes. Constants are omitted.
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
  DType real = DType::kF32;  // the type of scratch memory
};

/// The kernels of a file. Nodes whose functions would have the same source code share a function.
///
/// If an op accumulates in its results (COp::takes_16_bits is false), its nodes with bf16 or f16
/// operands or results are widened, as in the CPU backend (cpu/kernel.h). The kernel then computes
/// with f32 copies of these operands and results, in workspace. The results are rounded once, at
/// the end.
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

  /// Returns the call of the kernel of `node`, and adds the kernel if no equal kernel exists. The
  /// op must be available in C (OpInC).
  KernelCall Add(const Graph& graph, const Node& node, const Layouts& layouts);

  /// Returns the definitions of the kernels, in the order of their first use.
  const std::string& text() const { return text_; }
  /// Returns the number of kernels.
  int count() const { return static_cast<int>(names_.size()); }
  /// Returns the maximum number of bytes of local arrays in a kernel.
  Bytes stack() const { return stack_; }

 private:
  KernelCall AddKernel(const Kernel& kernel, const std::string& types);

  const int simd_;
  std::string text_;
  std::map<std::string, std::string> names_;  // by op and text after the name
  std::map<OpKind, int> counts_;
  Bytes stack_ = 0;
};

/// Returns the number of elements of a node's workspace, including f32 copies. The elements have
/// the type Kernel::real(). `simd` is CompileOptions::simd.
int64_t ScratchOf(const Graph& graph, const Node& node, int simd = 0);

// --- Programs (step_writer.cc) ---

/// The body of a program's function, which calls the kernels in the order of the plan.
///
///   /* fc1: mlp.cc:12 */
///   matmul_1(AT(f32, arena + 0), AT(f32, arena + 401408), AT(f32, arena + 532480));
///
/// A loop becomes a for statement, and a cond becomes a chain of if statements. The body of a loop
/// or branch accesses the values of the surrounding graph through pointers. In a loop, the pointers
/// are set for each iteration.
struct StepText {
  std::string body;  // indented by two spaces
  int launches = 0;
  bool can_fail = false;  // if true, `body` uses a variable `int status`
};

/// Returns the body of a program's function, and adds the kernels that it calls to `kernels`.
/// Buffers are at their addresses in `placed`, or in the arena if `placed` is null. Every op must
/// be available in C (OpInC).
StepText WriteStep(const Graph& graph, const Plan& plan,
                   const PlacedPlan* placed, const Memory& memory,
                   const Constants& constants, KernelSet* kernels);

/// Returns `text` in a form that is safe inside a one-line C comment. Sequences that begin or end a
/// comment are separated, backslashes and line ends become "|", and control characters are escaped.
std::string InComment(std::string_view text);

// --- The file (file_writer.cc) ---

/// Returns the source and the header. They contain types, memory, helpers, kernels, the
/// initialization of values, programs, functions that save and load, and accessors. The arguments
/// must have passed the checks of CompileToC.
CompiledStep WriteFile(std::span<const CProgram> programs,
                       const CompileOptions& options);

/// Returns whether `text` has the form of a C identifier: letters, digits and underscores that do
/// not begin with a digit. Keywords are not excluded.
bool IsIdentifier(std::string_view text);
/// Returns `text` with ASCII letters in upper case.
std::string Upper(std::string_view text);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_FILE_PARTS_H_
