#ifndef STOWAGE_IR_ATTRS_H_
#define STOWAGE_IR_ATTRS_H_

// Stores the attributes of a node, which are its static arguments: axes, flags, constants, the
// bodies of a loop. Attributes are a short list of named values in the order in which they were
// added. They are printed, parsed and compared without code for individual ops.
//
//   Attrs attrs{{"axis", int64_t{1}}, {"keep", int64_t{0}}};
//   attrs.Int("axis") == 1

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/tensor_type.h"

namespace stowage {

class Graph;  // ir/graph.h

/// The graphs inside a node, such as bodies of loops (ir/bodies.h) and fused programs (ir/fused.h).
/// They are immutable, and copies of the node share them.
using SubGraphs = std::vector<std::shared_ptr<const Graph>>;

/// The value of an attribute: an integer or flag, a real, an element type, a list of integers, raw
/// bytes, or graphs.
using AttrValue = std::variant<int64_t, double, DType, std::vector<int64_t>,
                               std::string, SubGraphs>;

class Attrs {
 public:
  using Entry = std::pair<std::string, AttrValue>;

  // Defined in attrs.cc, so that they are compiled only once.
  Attrs();
  Attrs(std::initializer_list<Entry> entries);
  Attrs(const Attrs& other);
  Attrs(Attrs&& other) noexcept;
  Attrs& operator=(const Attrs& other);
  Attrs& operator=(Attrs&& other) noexcept;
  ~Attrs();

  /// Sets the attribute `name`. A new attribute is appended to the list.
  void Set(std::string_view name, AttrValue value);
  /// Returns the value of the attribute `name`, or null if it does not exist. Linear in the length
  /// of the list.
  const AttrValue* Find(std::string_view name) const;
  /// Returns the real attribute `name`, or `otherwise` if it does not exist. Aborts if it has
  /// another type.
  double FloatOr(std::string_view name, double otherwise) const;

  // The following functions return an attribute of a known type. They abort if the attribute does
  // not exist or has another type, which is a bug in the op: its shape rule (OpDef::infer) must
  // check the attributes first, since graphs may be parsed from text.
  int64_t Int(std::string_view name) const;
  double Float(std::string_view name) const;
  DType Type(std::string_view name) const;
  const std::vector<int64_t>& Ints(std::string_view name) const;
  const std::string& Data(std::string_view name) const;
  const SubGraphs& Graphs(std::string_view name) const;

  const std::vector<Entry>& entries() const { return entries_; }
  /// Returns whether names and values are equal and in the same order. Reals are compared by
  /// their bits, so NaN equals itself, and -0 differs from 0. Graphs are compared with Equal.
  /// Defined in graph.cc.
  friend bool operator==(const Attrs& a, const Attrs& b);

 private:
  std::vector<Entry> entries_;
};

}  // namespace stowage

#endif  // STOWAGE_IR_ATTRS_H_
