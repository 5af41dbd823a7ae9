#ifndef STOWAGE_COMPILE_KERNEL_H_
#define STOWAGE_COMPILE_KERNEL_H_

// One node of a graph, and the C function that computes it.
//
// The description of an op family writes loops over index expressions; shapes, strides and
// attributes are constants in them. Addresses are not: they are the function's parameters,
// so that nodes of one kind share a function. Views cost nothing, since strides are part of
// the index expressions.
//
//   void WriteReverse(Kernel& k) {  // y[i] = x[n - 1 - i], along the only axis
//     const int64_t n = k.out(0).shape()[0];
//     k.For("i", n, [&](const Expr& i) {
//       k.Store(k.out(0), k.out(0).At({i}),
//               k.Load(k.in(0), k.in(0).At({StrCat("(", n - 1, " - ", i, ")")})));
//     });
//   }
//
// Text of kernels and helpers is written for all number types at once: `real` is float, double
// or a vector of floats, and `@` stands for the suffix of a function or a literal of that
// type: "exp@(x) + 0.5@" is "expf(x) + 0.5f", "exp(x) + 0.5" or "exp_x8(x) + 0.5f".

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

/// A C expression. "0" is left out of index expressions.
using Expr = std::string;
using Index = std::vector<Expr>;  // one for each axis

/// `a * b`, simplified if one of them is 0 or 1.
Expr Times(const Expr& a, int64_t b);
/// The sum of the terms that are not "0", or "0".
Expr Plus(std::span<const Expr> terms);
Expr Plus(std::initializer_list<Expr> terms);

/// An operand, a result or scratch memory, as a parameter of the C function.
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

  /// The position of an element, in elements from the first.
  Expr At(std::span<const Expr> index) const;
  Expr At(std::initializer_list<Expr> index) const;

 private:
  std::string name_;
  TensorType type_;
  Strides strides_;
};

/// The C type of elements, a typedef of the generated file: "f32", "bf16", "u8".
std::string_view CType(DType dtype);

/// f16 or bf16.
bool Is16Bits(DType dtype);

struct KernelForm {
  /// Bytes of the vectors of floats (CompileOptions::simd); 0: only scalars.
  int simd = 0;
  /// Whether bf16 and f16 operands and results are contiguous f32 copies
  /// (compile/file_parts.h).
  bool is_widened = false;
};

class Kernel {
 public:
  /// `layouts` are those of `graph`, which has the node; null where only types matter.
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

  /// The type in which the node computes: f64 if an operand or result is, otherwise f32.
  DType real() const { return real_; }
  /// A literal of that type.
  Expr Real(double value) const;
  /// The elements of the widest vectors; 1 in scalar kernels and those of f64.
  int64_t lanes() const { return real_ == DType::kF32 ? lanes_ : 1; }

  // --- Text ---

  template <typename... Args>
  void Line(const Args&... args) {
    AddLine(StrCat(args...));
  }
  /// for (name = 0; name < count; ++name). `body` gets the variable's unique name, or "0"
  /// if there is only one iteration.
  void For(std::string_view name, int64_t count,
           const std::function<void(const Expr&)>& body);
  /// Nested loops over `shape`; `body` gets one variable for each axis.
  void ForEach(const Shape& shape,
               const std::function<void(const Index&)>& body);
  /// Loops over all elements of tensors of one shape, with as few loops as their strides
  /// allow, the innermost one in vectors if all strides are 0 or 1; `body` gets the position
  /// in each.
  void ForElements(std::span<const Tensor* const> tensors,
                   const std::function<void(std::span<const Expr>)>& body);
  /// For, in vectors if the kernel has them: `body` is written for the elements from its
  /// argument on, and then for single elements, the rest. In vectors, `real` is a vector type,
  /// and Load and Store access consecutive elements if the position has the variable, whose
  /// stride must be 1; otherwise Load repeats one element. A body that has no vector form, such
  /// as a call of a function without one, is written for single elements only.
  void ForVectors(std::string_view name, int64_t count,
                  const std::function<void(const Expr&)>& body);
  /// The elements of the vectors in which ForVectors computes `count` elements; 1: none.
  int64_t LanesFor(int64_t count) const;
  /// Writes `body` for vectors of `lanes` elements, of consecutive values of `variable`; if that
  /// is "", all of Load is. Writes nothing and returns false if it has no vector form.
  bool InVectors(int64_t lanes, const Expr& variable,
                 const std::function<void()>& body);
  /// The elements that the text being written computes at once.
  int64_t width() const { return width_; }
  /// The body being written has no vector form.
  void RefuseVectors() { has_vector_form_ = false; }
  /// `head` { body }.
  void Block(std::string_view head, const std::function<void()>& body);
  /// Declares a local array of `real`, all zeros; returns its name. These arrays and scalars
  /// are all that a kernel has on the stack.
  Expr Array(std::string_view name, std::initializer_list<int64_t> sizes);
  /// A name that is not used in this kernel yet.
  std::string Fresh(std::string_view name);

  /// Workspace from element `first` on, as a tensor.
  Tensor Scratch(int64_t first, const Shape& shape) const;
  /// The element at `at`: floats of any type as real, others as they are.
  Expr Load(const Tensor& tensor, const Expr& at);
  /// The same as real, whatever its type.
  Expr LoadReal(const Tensor& tensor, const Expr& at);
  /// Writes the line that stores `value`, which is real if the tensor is of floats.
  void Store(const Tensor& tensor, const Expr& at, const Expr& value);
  /// Sets all elements of a contiguous tensor to 0.
  void Clear(const Tensor& tensor);
  /// Element 0, of a scalar operand.
  Expr Scalar(size_t input) { return LoadReal(in(input), "0"); }
  /// Reads an index operand into a new variable; the function returns an error code unless
  /// it is in [0, limit).
  Expr LoadIndex(const Tensor& tensor, const Expr& at, int64_t limit);

  /// Calls a function; its error codes are the kernel's.
  void Call(const Expr& call, bool can_fail);

  // --- The result ---

  /// "const f32 *x0, f32 *y0": the parameters that the text mentions.
  std::string Parameters() const;
  /// Their names, in order.
  std::vector<std::string> UsedParameters() const;
  bool can_fail() const { return can_fail_; }
  /// Bytes of its local arrays.
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
  Expr along_;  // the variable of the vectors being written
  bool has_vector_form_ = true;
  bool can_fail_ = false;
  Bytes stack_ = 0;
  std::map<std::string, int, std::less<>> names_;
};

/// The parameter of scratch memory, of `real` elements.
inline constexpr std::string_view kScratch = "scratch";

/// Replaces `real` and `@` in text for numbers of `type`. Of floats, exp@, log@ and tanh@ are
/// functions of the file, which give the same bits on every processor.
std::string ForType(std::string_view text, DType type);
/// The same for vectors of `lanes` floats.
std::string ForVectorType(std::string_view text, int64_t lanes);
/// Whether `c` may be part of an identifier.
bool IsPartOfName(char c);
/// Whether `text` has `name` as a whole identifier.
bool Mentions(std::string_view text, std::string_view name);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_KERNEL_H_
