#pragma once
using CGColorSpaceRef = struct CGColorSpace*;
