#include "compile/weight_rows.h"

#include <cctype>

namespace stowage::compile {

int64_t WeightRows::width() const {
  const int64_t row = w_.shape()[1];
  return is_quantized() ? *NumbersOf(static_cast<WeightType>(blocks_), row)
                        : row;
}

void WeightRows::Decode(Kernel& k, const Expr& row, const Expr& to) const {
  const BlockFormat& format = FormatOf(static_cast<WeightType>(blocks_));
  std::string name = "decode_";
  for (const char c : format.name) {
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  k.For("block", width() / format.numbers, [&](const Expr& block) {
    k.Line(name, "@(",
           Plus({w_.name(), Times(row, w_.shape()[1]),
                 Times(block, format.bytes)}),
           ", ", Plus({to, Times(block, format.numbers)}), ");");
  });
}

}  // namespace stowage::compile
