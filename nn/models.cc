#include "nn/models.h"

#include <array>
#include <string>

#include "base/result.h"
#include "base/strings.h"

namespace stowage {

std::span<const ModelInfo> Models() {
  static const std::array kModels = {
#define STOWAGE_MODEL(function) models::function(),
#include "nn/models.def"
#undef STOWAGE_MODEL
  };
  return kModels;
}

Result<ModelInfo> FindModel(std::string_view name) {
  std::string names;
  for (const ModelInfo& info : Models()) {
    if (info.name == name) return info;
    names += StrCat(names.empty() ? "" : ", ", info.name);
  }
  return Error{ErrorCode::kNotFound,
               StrCat("[model] there is no model ", Quoted(name),
                      "; the models are ", names)};
}

Result<Graph> BuildModel(std::string_view name, ModelPurpose purpose,
                         const ModelOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(const ModelInfo info, FindModel(name));
  ModelOptions filled = options;
  if (!filled.batch) filled.batch = info.batch;
  if (!filled.seq && info.seq > 0) filled.seq = info.seq;
  if (!filled.images && info.data != ModelData::kText) {
    filled.images = info.images;
  }
  STOWAGE_CHECK(info.build != nullptr);
  return info.build(purpose, filled);
}

}  // namespace stowage
