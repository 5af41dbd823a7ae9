#ifndef STOWAGE_COMPILE_KERNEL_H_
#define STOWAGE_COMPILE_KERNEL_H_

// Writes the C function that computes a node of a graph.
//
// The writer of an op (compile/ops.h) is a function that writes loops over index expressions.
// Shapes, strides and attributes are constants in these expressions. Addresses are parameters of
// the C function, so that equal nodes share a function. Views need no code, because strides are
// part of the index expressions.
//
//   void WriteReverse(Kernel& k) {  // y[i] = x[n - 1 - i], along the only axis
//     const int64_t n = k.out(0).shape()[0];
//     k.For("i", n, [&](const Expr& i) {
//       k.Store(k.out(0), k.out(0).At({i}),
//               k.Load(k.in(0), k.in(0).At({StrCat("(", n - 1, " - ", i, ")")})));
//     });
//   }
//
// The code of kernels and helpers is written once for all number types. In the written text, `real`
// is replaced with float, double or a vector of floats, and `@` is replaced with the suffix of a
// function or literal of that type. For example, "exp@(x) + 0.5@" becomes "exp_f32(x) + 0.5f",
// "exp(x) + 0.5" or "exp_x8(x) + 0.5f".

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

/// A C expression.
using Expr = std::string;
/// The index of an element of a tensor, with one expression for each axis.
using Index = std::vector<Expr>;

/// Returns an expression for a * b, simplified if `a` is "0" or `b` is 0 or 1.
Expr Times(const Expr& a, int64_t b);
/// Returns an expression for the sum of the terms. Terms that are "0" are omitted. The sum of no
/// terms is "0".
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
  /// Whether the kernel receives contiguous f32 copies of bf16 and f16 operands and results
  /// (KernelSet, compile/file_parts.h).
  bool is_widened = false;
};

/// The kernel of a node: the node's operands and results, and the C code written so far.
class Kernel {
 public:
  /// Creates a kernel without code. `node` must be a node of `graph` and outlive this object.
  /// `layouts` must be the layouts of `graph`. If null, all tensors are assumed to be contiguous.
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

  /// Returns the type in which the kernel computes: f64 if an operand or result is f64, and f32
  /// otherwise. In the written code, this type is called `real`.
  DType real() const { return real_; }
  /// Returns a literal of type `real`.
  Expr Real(double value) const;
  /// Returns the number of elements of the widest vectors. Returns 1 for scalar and f64 kernels.
  int64_t lanes() const { return real_ == DType::kF32 ? lanes_ : 1; }

  // --- Text ---

  /// Writes the line StrCat(args...), indented.
  template <typename... Args>
  void Line(const Args&... args) {
    AddLine(StrCat(args...));
  }
  /// Writes a loop `for (name = 0; name < count; ++name)` and calls `body` to write its body. The
  /// argument of `body` is the unique name of the loop variable. If `count` is 1, no loop is
  /// written, and the argument is "0".
  void For(std::string_view name, int64_t count,
           const std::function<void(const Expr&)>& body);
  /// Writes nested loops over `shape`. The argument of `body` contains one variable for each axis.
  void ForEach(const Shape& shape,
               const std::function<void(const Index&)>& body);
  /// Writes loops over all elements of `tensors`, which must have the same shape, with as few loops
  /// as the strides allow. The innermost loop is vectorized if all of its strides are 0 or 1. The
  /// argument of `body` contains the offset of the element in each tensor.
  void ForElements(std::span<const Tensor* const> tensors,
                   const std::function<void(std::span<const Expr>)>& body);
  /// Writes a loop as For does, but vectorized if the kernel has vectors. `body` is called to write
  /// the code for vectors of elements that begin at its argument, and then for the remaining single
  /// elements. In vector code, `real` is a vector type. Load and Store access consecutive elements
  /// if the index mentions the loop variable, which must have stride 1 there. Otherwise, Load
  /// broadcasts one element. If the code has no vector form, for example because it calls a
  /// function without a vector form, the loop is written as For writes it.
  void ForVectors(std::string_view name, int64_t count,
                  const std::function<void(const Expr&)>& body);
  /// Returns the number of elements of the vectors in which ForVectors computes `count` elements. 1
  /// means that no vectors are used.
  int64_t LanesFor(int64_t count) const;
  /// Calls `body` to write code for vectors of `lanes` elements, for consecutive values of
  /// `variable`. If `variable` is "", every Load accesses consecutive elements. If the code has no
  /// vector form, writes nothing and returns false.
  bool InVectors(int64_t lanes, const Expr& variable,
                 const std::function<void()>& body);
  /// Returns the number of elements of the vectors in the code that is being written, or 1.
  int64_t width() const { return width_; }
  /// Declares that the code that is being written has no vector form.
  void RefuseVectors() { has_vector_form_ = false; }
  /// Writes `head {`, calls `body` to write the statements of the block, and writes `}`.
  void Block(std::string_view head, const std::function<void()>& body);
  /// Writes the declaration of a local array of `real`, initialized to zeros, and returns its name.
  /// A kernel's local variables are only such arrays, scalars and vectors.
  Expr Array(std::string_view name, std::initializer_list<int64_t> sizes);
  /// Returns `name`, with a suffix if the name is already used in this kernel.
  std::string Fresh(std::string_view name);

  /// Returns the workspace from element `first` on as a contiguous tensor of `real`.
  Tensor Scratch(int64_t first, const Shape& shape) const;
  /// Returns an expression for the element at offset `at`. Elements of float types are converted to
  /// `real`.
  Expr Load(const Tensor& tensor, const Expr& at);
  /// Returns an expression for the element at offset `at`, converted to `real` from any type.
  Expr LoadReal(const Tensor& tensor, const Expr& at);
  /// Writes the statement that stores `value` at offset `at`. If the tensor has a float type,
  /// `value` must have the type `real`, and is rounded.
  void Store(const Tensor& tensor, const Expr& at, const Expr& value);
  /// Writes the statement that sets all elements of a contiguous tensor to 0.
  void Clear(const Tensor& tensor);
  /// Returns an expression for the element of a scalar operand, converted to `real`.
  Expr Scalar(size_t input) { return LoadReal(in(input), "0"); }
  /// Writes code that loads an element of an index operand into a new variable, and returns the
  /// name of the variable. The kernel returns an error code if the index is not in [0, limit).
  Expr LoadIndex(const Tensor& tensor, const Expr& at, int64_t limit);

  /// Writes a call of a function. If `can_fail` is true, the function returns an error code, and
  /// the kernel returns it if it is not 0.
  void Call(const Expr& call, bool can_fail);

  // --- The result ---

  /// Returns the declarations of the parameters that the code mentions: "const f32 *x0, f32 *y0".
  std::string Parameters() const;
  /// Returns the names of these parameters, in order.
  std::vector<std::string> UsedParameters() const;
  /// Returns whether the kernel returns an error code.
  bool can_fail() const { return can_fail_; }
  /// Returns the size of all local arrays in bytes.
  Bytes stack() const { return stack_; }
  /// Returns the body of the C function, without its braces.
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

/// Returns `text` with `real` and `@` replaced for numbers of type `type`, f32 or f64. For f32, the
/// functions exp@, log@ and tanh@ become functions of the file, such as exp_f32, because those of
/// math.h are not bit-equal on all processors.
std::string ForType(std::string_view text, DType type);
/// Returns `text` with `real` and `@` replaced for vectors of `lanes` floats.
std::string ForVectorType(std::string_view text, int64_t lanes);
/// Returns whether `c` may be part of an identifier.
bool IsPartOfName(char c);
/// Returns whether `text` contains `name` as a whole identifier.
bool Mentions(std::string_view text, std::string_view name);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_KERNEL_H_
