// GET /openapi.json: which routes there are, for tools that ask.
#pragma once

#include <string>
#include <vector>

namespace glint {

/// `routes` as ApiService::route_list() has them: "/v1/models, Methods: GET". Bodies are described as objects
/// only.
std::string openapi_document(const std::vector<std::string>& routes);

}  // namespace glint
