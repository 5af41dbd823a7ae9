#ifndef STOWAGE_COMPILE_KERNEL_H_
#define STOWAGE_COMPILE_KERNEL_H_

// Writes the C function that computes a node of a graph.
//
// The writer of an op family emits loops over index expressions. Shapes, strides and attributes are
// constants in these expressions. Addresses are parameters of the function, so that equal nodes
// share a function. Views are free, because strides are part of the index expressions.
//
//   void WriteReverse(Kernel& k) {  // y[i] = x[n - 1 - i], along the only axis
//     const int64_t n = k.out(0).shape()[0];
//     k.For("i", n, [&](const Expr& i) {
//       k.Store(k.out(0), k.out(0).At({i}),
//               k.Load(k.in(0), k.in(0).At({StrCat("(", n - 1, " - ", i, ")")})));
//     });
//   }
//
// The code of kernels and helpers is written once for all number types. `real` is replaced with
// float, double or a vector of floats, and `@` with the suffix of a function or literal of that
// type. For example, "exp@(x) + 0.5@" becomes "expf(x) + 0.5f", "exp(x) + 0.5" or
// "exp_x8(x) + 0.5f".

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/tensor_type.h"

namespace stowage::compile {

/// A C expression. Terms "0" are omitted from index expressions.
using Expr = std::string;
using Index = std::vector<Expr>;  // one for each axis

/// Returns `a * b`, simplified if `a` is "0" or `b` is 0 or 1.
Expr Times(const Expr& a, int64_t b);
/// Returns the sum of the terms that are not "0", or "0" if there are none.
Expr Plus(std::span<const Expr> terms);
Expr Plus(std::initializer_list<Expr> terms);

/// A parameter of the C function: an operand, a result or scratch memory.
class Tensor {
 public:
  Tensor(std::string name, const TensorType& type, const Strides& strides)
      : name_(std::move(name)), type_(type), strides_(strides) {}

  const std::string& name() const { return name_; }
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  int64_t size() const { return type_.shape.num_elements(); }
  const Strides& strides() const { return strides_; }
  bool is_contiguous() const { return IsContiguous(type_.shape, strides_); }

  /// Returns the offset of an element from the first element, in elements.
  Expr At(std::span<const Expr> index) const;
  Expr At(std::initializer_list<Expr> index) const;

 private:
  std::string name_;
  TensorType type_;
  Strides strides_;
};

/// Returns the C type of elements, a typedef of the generated file such as "f32", "bf16" or "u8".
std::string_view CType(DType dtype);

/// Returns whether `dtype` is f16 or bf16.
bool Is16Bits(DType dtype);

struct KernelForm {
  /// The size of vectors of floats in bytes (CompileOptions::simd). 0 means scalars only.
  int simd = 0;
  /// Whether the kernel gets contiguous f32 copies of bf16 and f16 operands and results
  /// (compile/file_parts.h).
  bool is_widened = false;
};

/// The kernel of a node: the node's operands and results, and the C code written so far.
class Kernel {
 public:
  /// `node` must be a node of `graph`. `layouts` are the layouts of `graph`. They may be null if
  /// only types are needed.
  Kernel(const Graph& graph, const Node& node, const Layouts* layouts,
         KernelForm form = {});

  OpKind op() const { return node_.op; }
  const Node& node() const { return node_; }
  const Attrs& attrs() const { return node_.attrs; }
  int64_t Int(std::string_view name) const { return attrs().Int(name); }
  size_t num_inputs() const { return inputs_.size(); }
  size_t num_outputs() const { return outputs_.size(); }
  const Tensor& in(size_t i) const { return inputs_[i]; }
  const Tensor& out(size_t r) const { return outputs_[r]; }

  /// Returns the type of the computation: f64 if an operand or result is f64, and f32 otherwise.
  DType real() const { return real_; }
  /// Returns a literal of that type.
  Expr Real(double value) const;
  /// Returns the number of elements of the widest vectors, which is 1 in scalar and f64 kernels.
  int64_t lanes() const { return real_ == DType::kF32 ? lanes_ : 1; }

  // --- Text ---

  template <typename... Args>
  void Line(const Args&... args) {
    AddLine(StrCat(args...));
  }
  /// Writes `for (name = 0; name < count; ++name)`. `body` receives the unique name of the
  /// variable, or "0" if there is only one iteration.
  void For(std::string_view name, int64_t count,
           const std::function<void(const Expr&)>& body);
  /// Writes nested loops over `shape`. `body` receives one variable for each axis.
  void ForEach(const Shape& shape,
               const std::function<void(const Index&)>& body);
  /// Writes loops over all elements of tensors of the same shape, with the minimum number of loops
  /// that the strides allow. The innermost loop is vectorized if all of its strides are 0 or 1.
  /// `body` receives the offset of the element in each tensor.
  void ForElements(std::span<const Tensor* const> tensors,
                   const std::function<void(std::span<const Expr>)>& body);
  /// Does the same as For, but vectorized if the kernel has vectors. `body` is written for vectors
  /// of elements that begin at its argument, and then for the remaining single elements. In
  /// vectors, `real` is a vector type. Load and Store access consecutive elements if the index
  /// mentions the variable, which must have stride 1. Otherwise, Load broadcasts one element. A
  /// body without a vector form, such as a call of a function without one, is only written for
  /// single elements.
  void ForVectors(std::string_view name, int64_t count,
                  const std::function<void(const Expr&)>& body);
  /// Returns the number of elements of the vectors in which ForVectors computes `count` elements. 1
  /// means that no vectors are used.
  int64_t LanesFor(int64_t count) const;
  /// Writes `body` for vectors of `lanes` elements, for consecutive values of `variable`. If
  /// `variable` is "", every Load accesses consecutive elements. If `body` has no vector form,
  /// writes nothing and returns false.
  bool InVectors(int64_t lanes, const Expr& variable,
                 const std::function<void()>& body);
  /// Returns the number of elements that the code being written computes simultaneously.
  int64_t width() const { return width_; }
  /// Declares that the body being written has no vector form.
  void RefuseVectors() { has_vector_form_ = false; }
  /// Writes `head { body }`.
  void Block(std::string_view head, const std::function<void()>& body);
  /// Declares a local array of `real` that is initialized to zeros, and returns its name. A kernel
  /// has only these arrays and scalars on the stack.
  Expr Array(std::string_view name, std::initializer_list<int64_t> sizes);
  /// Returns `name`, with a suffix if the name is already used in this kernel.
  std::string Fresh(std::string_view name);

  /// Returns the workspace from element `first` on as a tensor.
  Tensor Scratch(int64_t first, const Shape& shape) const;
  /// Returns the element at offset `at`. Elements of any float type are converted to real.
  Expr Load(const Tensor& tensor, const Expr& at);
  /// Returns the element at offset `at`, converted to real from any type.
  Expr LoadReal(const Tensor& tensor, const Expr& at);
  /// Writes the statement that stores `value`, which must be real if the tensor has floats.
  void Store(const Tensor& tensor, const Expr& at, const Expr& value);
  /// Sets all elements of a contiguous tensor to 0.
  void Clear(const Tensor& tensor);
  /// Returns the element of a scalar operand, converted to real.
  Expr Scalar(size_t input) { return LoadReal(in(input), "0"); }
  /// Loads an element of an index operand into a new variable. The kernel returns an error code
  /// unless the index is in [0, limit).
  Expr LoadIndex(const Tensor& tensor, const Expr& at, int64_t limit);

  /// Writes a call of a function. If `can_fail`, the kernel returns error codes of the function.
  void Call(const Expr& call, bool can_fail);

  // --- The result ---

  /// Returns the declarations of the parameters that the code mentions: "const f32 *x0, f32 *y0".
  std::string Parameters() const;
  /// Returns the names of these parameters, in order.
  std::vector<std::string> UsedParameters() const;
  bool can_fail() const { return can_fail_; }
  /// Returns the size of the local arrays in bytes.
  Bytes stack() const { return stack_; }
  std::string Body() const;

 private:
  void AddLine(std::string_view line);

  const Node& node_;
  std::vector<Tensor> inputs_, outputs_;
  DType real_;
  const int64_t lanes_;
  std::string text_;
  int depth_ = 1;
  int64_t width_ = 1;
  Expr along_;  // the loop variable of the vectors being written
  bool has_vector_form_ = true;
  bool can_fail_ = false;
  Bytes stack_ = 0;
  std::map<std::string, int, std::less<>> names_;
};

/// The name of the parameter for scratch memory, which has elements of type `real`.
inline constexpr std::string_view kScratch = "scratch";

/// Replaces `real` and `@` in `text` for numbers of type `type`. For f32, exp@, log@ and tanh@
/// become functions of the file, which give the same bits on every processor.
std::string ForType(std::string_view text, DType type);
/// Does the same for vectors of `lanes` floats.
std::string ForVectorType(std::string_view text, int64_t lanes);
/// Returns whether `c` may be part of an identifier.
bool IsPartOfName(char c);
/// Returns whether `text` contains `name` as a whole identifier.
bool Mentions(std::string_view text, std::string_view name);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_KERNEL_H_
