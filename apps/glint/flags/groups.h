// The groups of the flag table, one source file each.
#pragma once

#include "flags/serve_flags.h"

namespace glint {

void add_model_flags(FlagTable& table, ServeFlags& to);
void add_memory_flags(FlagTable& table, ServeFlags& to);
void add_parallel_flags(FlagTable& table, ServeFlags& to);
void add_speculation_flags(FlagTable& table, ServeFlags& to);
void add_kernel_flags(FlagTable& table, ServeFlags& to);
void add_api_flags(FlagTable& table, ServeFlags& to);
void add_http_flags(FlagTable& table, ServeFlags& to);
void add_transport_flags(FlagTable& table, ServeFlags& to);
void add_operations_flags(FlagTable& table, ServeFlags& to);
/// Flags of other engines that change nothing here, or that cannot be done.
void add_foreign_flags(FlagTable& table);

}  // namespace glint
