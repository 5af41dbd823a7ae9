#ifndef STOWAGE_IR_ATTRS_H_
#define STOWAGE_IR_ATTRS_H_

// The static arguments of a node: axes, flags, constants, the bodies of a loop. They are a
// short list of named values in a fixed order, so that printing, parsing and equality need
// no code per op.
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

/// Graphs inside a node (ir/bodies.h): immutable, shared by all copies of the node.
using SubGraphs = std::vector<std::shared_ptr<const Graph>>;

/// Integers and flags; reals; element types; integer lists; raw bytes; graphs.
using AttrValue = std::variant<int64_t, double, DType, std::vector<int64_t>,
                               std::string, SubGraphs>;

class Attrs {
 public:
  using Entry = std::pair<std::string, AttrValue>;

  // Defined in attrs.cc, so that not every includer compiles them.
  Attrs();
  Attrs(std::initializer_list<Entry> entries);
  Attrs(const Attrs& other);
  Attrs(Attrs&& other) noexcept;
  Attrs& operator=(const Attrs& other);
  Attrs& operator=(Attrs&& other) noexcept;
  ~Attrs();

  void Set(std::string_view name, AttrValue value);
  /// The value under `name`, or null. Linear in the (short) list.
  const AttrValue* Find(std::string_view name) const;
  /// The real value under `name`, or `otherwise` if there is none.
  double FloatOr(std::string_view name, double otherwise) const;

  // Typed access. A missing name or another type is a bug in the op and aborts;
  // the graph parser checks attributes before an op sees them.
  int64_t Int(std::string_view name) const;
  double Float(std::string_view name) const;
  DType Type(std::string_view name) const;
  const std::vector<int64_t>& Ints(std::string_view name) const;
  const std::string& Data(std::string_view name) const;
  const SubGraphs& Graphs(std::string_view name) const;

  const std::vector<Entry>& entries() const { return entries_; }
  /// The same names and values in the same order. Reals compare by their bits: NaN equals
  /// itself, and -0 is not 0. Graphs compare by Equal. Defined in graph.cc.
  friend bool operator==(const Attrs& a, const Attrs& b);

 private:
  std::vector<Entry> entries_;
};

}  // namespace stowage

#endif  // STOWAGE_IR_ATTRS_H_
