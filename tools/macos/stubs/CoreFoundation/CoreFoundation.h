// The few names of CoreFoundation that metal-cpp mentions, for compiling without Apple's SDK.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define CF_EXPORT extern "C"

using CFHashCode = unsigned long;
using CFIndex = signed long;
using CFTimeInterval = double;
using CFTypeRef = const void*;
using CFAllocatorRef = const struct __CFAllocator*;
using CFDictionaryRef = const struct __CFDictionary*;
using CFStringRef = const struct __CFString*;
using CFURLRef = const struct __CFURL*;
