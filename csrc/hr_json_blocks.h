/* Private to hr_json_string.c, which includes it once per instruction set: strings and structure in
 * blocks of 64 bytes, one bit per byte. Expects the macros
 *   B(name)   the name with the suffix of the instruction set
 *   TARGET    the attribute that allows the instructions
 *   WIDE      1 for AVX2, 0 for SSE2 */

#if WIDE
typedef struct {
    __m256i v[2];
} B(block);
#else
typedef struct {
    __m128i v[4];
} B(block);
#endif

/* Loads 64 bytes; behind the end of the text there are zeros. */
TARGET static inline B(block) B(load)(hr_up p, hr_up e)
{
    B(block) x;
    unsigned char tail[BLOCK];
    if (HR_UNLIKELY((size_t)(e - p) < BLOCK)) {
        memset(tail, 0, sizeof tail);
        memcpy(tail, p, (size_t)(e - p));
        p = tail;
    }
#if WIDE
    const __m256i *from = (const void *)p;
    UNROLL for (int i = 0; i < 2; i++) x.v[i] = _mm256_loadu_si256(from + i);
#else
    const __m128i *from = (const void *)p;
    UNROLL for (int i = 0; i < 4; i++) x.v[i] = _mm_loadu_si128(from + i);
#endif
    return x;
}

/* The highest bit of each byte. */
TARGET static inline uint64_t B(high)(B(block) x)
{
#if WIDE
    const uint64_t a = (uint32_t)_mm256_movemask_epi8(x.v[0]), b = (uint32_t)_mm256_movemask_epi8(x.v[1]);
    return a | b << 32;
#else
    const uint64_t a = (uint64_t)_mm_movemask_epi8(x.v[0]), b = (uint64_t)_mm_movemask_epi8(x.v[1]);
    const uint64_t c = (uint64_t)_mm_movemask_epi8(x.v[2]), d = (uint64_t)_mm_movemask_epi8(x.v[3]);
    return a | b << 16 | c << 32 | d << 48;
#endif
}

/* Bytes of ones where x holds c. */
TARGET static inline B(block) B(same)(B(block) x, char c)
{
#if WIDE
    UNROLL for (int i = 0; i < 2; i++) x.v[i] = _mm256_cmpeq_epi8(x.v[i], _mm256_set1_epi8(c));
#else
    UNROLL for (int i = 0; i < 4; i++) x.v[i] = _mm_cmpeq_epi8(x.v[i], _mm_set1_epi8(c));
#endif
    return x;
}

TARGET static inline uint64_t B(equal)(B(block) x, char c)
{
    return B(high)(B(same)(x, c));
}

/* Bytes of ones where x holds a control or is not ASCII: below a space as signed bytes. */
TARGET static inline B(block) B(below_space)(B(block) x)
{
#if WIDE
    UNROLL for (int i = 0; i < 2; i++) x.v[i] = _mm256_cmpgt_epi8(_mm256_set1_epi8(0x20), x.v[i]);
#else
    UNROLL for (int i = 0; i < 4; i++) x.v[i] = _mm_cmplt_epi8(x.v[i], _mm_set1_epi8(0x20));
#endif
    return x;
}

TARGET static inline B(block) B(either)(B(block) x, B(block) y)
{
#if WIDE
    UNROLL for (int i = 0; i < 2; i++) x.v[i] = _mm256_or_si256(x.v[i], y.v[i]);
#else
    UNROLL for (int i = 0; i < 4; i++) x.v[i] = _mm_or_si128(x.v[i], y.v[i]);
#endif
    return x;
}

TARGET static inline B(block) B(with_bit5)(B(block) x)
{
#if WIDE
    UNROLL for (int i = 0; i < 2; i++) x.v[i] = _mm256_or_si256(x.v[i], _mm256_set1_epi8(0x20));
#else
    UNROLL for (int i = 0; i < 4; i++) x.v[i] = _mm_or_si128(x.v[i], _mm_set1_epi8(0x20));
#endif
    return x;
}

TARGET static inline int B(none)(B(block) x)
{
#if WIDE
    const __m256i all = _mm256_or_si256(x.v[0], x.v[1]);
    return _mm256_testz_si256(all, all);
#else
    return !_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(x.v[0], x.v[1]), _mm_or_si128(x.v[2], x.v[3])));
#endif
}

/* Bits of the bytes that may follow a backslash and are neither a quote nor a backslash nor a u. */
TARGET static inline uint64_t B(escape_letters)(B(block) x)
{
    const B(block) a = B(either)(B(same)(x, 'n'), B(same)(x, 't'));
    const B(block) b = B(either)(B(same)(x, 'r'), B(same)(x, '/'));
    const B(block) c = B(either)(B(same)(x, 'b'), B(same)(x, 'f'));
    return B(high)(B(either)(B(either)(a, b), c));
}

#if WIDE
/* Bits of the bytes that make their sequence no UTF-8: what is wrong with a sequence shows at its
 * second byte, or at the place where a continuation is missing. The three tables are the published
 * lookup of Keiser and Lemire ("Validating UTF-8 In Less Than One Instruction Per Byte"): each kind of
 * fault is a bit that survives when the high half of the byte before, its low half, and the high half
 * of the byte all allow it. `before`: the 32 bytes before the block. */
TARGET static inline __m256i B(utf8_half)(__m256i x, __m256i before)
{
    enum {
        SHORT = 1, LONG = 2, OVER3 = 4, LARGE = 8, SURROGATE = 16, OVER2 = 32, LARGE1000 = 64, OVER4 = 64,
        CONTINUED = 128, CARRY = SHORT | LONG | CONTINUED, BIG = CARRY | LARGE | LARGE1000
    };
    const __m256i high_before = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, (char)CONTINUED, (char)CONTINUED, (char)CONTINUED,
        (char)CONTINUED, SHORT | OVER2, SHORT, SHORT | OVER3 | SURROGATE, SHORT | LARGE | LARGE1000 | OVER4));
    const __m256i low_before = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        (char)(CARRY | OVER3 | OVER2 | OVER4), (char)(CARRY | OVER2), (char)CARRY, (char)CARRY,
        (char)(CARRY | LARGE), (char)BIG, (char)BIG, (char)BIG, (char)BIG, (char)BIG, (char)BIG, (char)BIG,
        (char)BIG, (char)(BIG | SURROGATE), (char)BIG, (char)BIG));
    const __m256i high_here = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        SHORT, SHORT, SHORT, SHORT, SHORT, SHORT, SHORT, SHORT,
        (char)(LONG | OVER2 | CONTINUED | OVER3 | LARGE1000 | OVER4),
        (char)(LONG | OVER2 | CONTINUED | OVER3 | LARGE),
        (char)(LONG | OVER2 | CONTINUED | SURROGATE | LARGE),
        (char)(LONG | OVER2 | CONTINUED | SURROGATE | LARGE),
        SHORT, SHORT, SHORT, SHORT));
    const __m256i low_half = _mm256_set1_epi8(0x0F);
    const __m256i joint = _mm256_permute2x128_si256(before, x, 0x21);
    const __m256i one = _mm256_alignr_epi8(x, joint, 15), two = _mm256_alignr_epi8(x, joint, 14);
    const __m256i three = _mm256_alignr_epi8(x, joint, 13);
    const __m256i a = _mm256_shuffle_epi8(high_before, _mm256_and_si256(_mm256_srli_epi16(one, 4), low_half));
    const __m256i b = _mm256_shuffle_epi8(low_before, _mm256_and_si256(one, low_half));
    const __m256i c = _mm256_shuffle_epi8(high_here, _mm256_and_si256(_mm256_srli_epi16(x, 4), low_half));
    const __m256i faults = _mm256_and_si256(_mm256_and_si256(a, b), c);
    /* a third or fourth byte is due where CONTINUED alone is right */
    const __m256i third = _mm256_subs_epu8(two, _mm256_set1_epi8(0xE0 - 0x80));
    const __m256i fourth = _mm256_subs_epu8(three, _mm256_set1_epi8(0xF0 - 0x80));
    const __m256i due = _mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8((char)0x80));
    return _mm256_xor_si256(faults, due);
}

TARGET static inline uint64_t B(utf8_faults)(B(block) x, __m256i before)
{
    B(block) f;
    f.v[0] = B(utf8_half)(x.v[0], before);
    f.v[1] = B(utf8_half)(x.v[1], x.v[0]);
    return ~B(equal)(f, 0);
}
#endif

/* The first whole block at or behind p that is more than plain string text. */
TARGET static inline hr_up B(plain_blocks)(hr_up p, hr_up e)
{
    while ((size_t)(e - p) >= BLOCK) {
        const B(block) x = B(load)(p, e);
        if (!B(none)(B(either)(B(below_space)(x), B(either)(B(same)(x, '"'), B(same)(x, '\\'))))) break;
        p += BLOCK;
    }
    return p;
}

/* The rest of a string; p is not inside an escape or a sequence. */
TARGET static hr_up B(string_blocks)(hr_up p, hr_scan *s)
{
    const hr_up e = s->e;
    uint64_t carry = 0;
    uint64_t rich = 0; /* the block before holds more than plain text: the next will, too */
    hr_up low_at = NULL; /* where the u of a low surrogate is due */
#if WIDE
    const hr_up start = p;
    __m256i before = _mm256_setzero_si256();
    uint64_t open = 0; /* the block before may end inside a sequence */
#else
    hr_up utf8_done = p; /* everything before it is checked */
#endif
    for (; p < e; p += BLOCK) {
        if (!rich) {
            p = B(plain_blocks)(p, e);
#if WIDE
            before = _mm256_setzero_si256();
#endif
        }
        const B(block) x = B(load)(p, e);
        const uint64_t quote = B(equal)(x, '"'), backslash = B(equal)(x, '\\');
        const uint64_t below = B(high)(B(below_space)(x));
        rich = backslash | below;
        const uint64_t escaped = escaped_bits(backslash, &carry);
        const uint64_t end = quote & ~escaped;
        const uint64_t in = end ? (end & -end) - 1 : ~UINT64_C(0); /* the string's own bytes */

        const uint64_t high = B(high)(x);
        const uint64_t control = below & in & ~high;
        if (HR_UNLIKELY(control)) {
            const hr_up at = p + __builtin_ctzll(control);
            return hr_fault(s, at < e ? at : e, HR_BAD_JSON); /* also the zeros behind the end */
        }
#if WIDE
        if ((high & in) | open) {
            /* the quote is the place where the last sequence may turn out short */
            if (HR_UNLIKELY(B(utf8_faults)(x, before) & (in | (end & -end)))) return utf8_fault(start, s);
            open = high >> 61;
        }
        before = x.v[1];
#else
        for (uint64_t left = high & in; left;) {
            hr_up c = p + __builtin_ctzll(left);
            if (c < utf8_done) c = utf8_done;
            while (c < e && c < p + BLOCK && *c >= 0x80) {
                const unsigned n = utf8_sequence(c, e);
                if (HR_UNLIKELY(!n)) return hr_fault(s, c, HR_BAD_UTF8);
                c += n;
            }
            utf8_done = c;
            const size_t done = (size_t)(utf8_done - p);
            left = done < BLOCK ? left & (~UINT64_C(0) << done) : 0;
        }
#endif
        if (escaped & in) {
            const uint64_t unicode = B(equal)(x, 'u') & escaped & in;
            const uint64_t bad = escaped & in & ~(quote | backslash | B(escape_letters)(x) | unicode);
            s->escaped = 1;
            if (HR_UNLIKELY(bad)) return hr_fault(s, p + __builtin_ctzll(bad), HR_BAD_JSON);
            for (uint64_t left = unicode; left; left &= left - 1) {
                const hr_up c = p + __builtin_ctzll(left);
                if (HR_UNLIKELY(!unicode_escape(c, &low_at, s))) return NULL;
            }
        }
        if (end) return p + __builtin_ctzll(end) + 1;
    }
    return hr_fault(s, e, HR_BAD_JSON);
}

TARGET static hr_up B(skip_string)(hr_up p, hr_scan *s)
{
    uint64_t carry = 0;
    for (; p < s->e; p += BLOCK) {
        const B(block) x = B(load)(p, s->e);
        const uint64_t backslash = B(equal)(x, '\\');
        const uint64_t end = B(equal)(x, '"') & ~escaped_bits(backslash, &carry);
        const uint64_t in = end ? (end & -end) - 1 : ~UINT64_C(0);
        if (backslash & in) s->escaped = 1;
        if (end) return p + __builtin_ctzll(end) + 1;
    }
    return hr_fault(s, s->e, HR_BAD_JSON);
}

TARGET static hr_up B(skip_container)(hr_up p, hr_scan *s, uint32_t depth)
{
    const hr_up e = s->e;
    const uint32_t room = s->max_depth > depth ? s->max_depth - depth : 0;
    unsigned char close[HR_DEPTH_CAP]; /* the closing bracket of every open level */
    uint32_t d = 0;
    uint64_t carry = 0, in_string = 0; /* in_string: all ones when a string goes on into the block */
    for (; p < e; p += BLOCK) {
        const B(block) x = B(load)(p, e);
        const uint64_t backslash = B(equal)(x, '\\');
        const uint64_t quote = B(equal)(x, '"') & ~escaped_bits(backslash, &carry);
        if (in_string && !quote) continue; /* all of it is inside one string */
        const uint64_t inside = prefix_xor(quote) ^ in_string;
        in_string = (uint64_t)0 - (inside >> 63);
        /* bit 5 set turns [ into { and ] into } and nothing else into either */
        const B(block) y = B(with_bit5)(x);
        const uint64_t opening = B(equal)(y, '{') & ~inside;
        uint64_t left = opening | (B(equal)(y, '}') & ~inside);
        /* a backslash outside a string; what is before it was read rightly */
        const uint64_t stray = backslash & ~inside;
        if (HR_UNLIKELY(stray)) left &= (stray & -stray) - 1;
        for (; left; left &= left - 1) {
            const hr_up c = p + __builtin_ctzll(left);
            if (left & -left & opening) {
                if (HR_UNLIKELY(d >= room)) return hr_fault(s, c, HR_TOO_DEEP);
                close[d++] = (unsigned char)(*c + 2);
            } else {
                if (HR_UNLIKELY(*c != close[d - 1])) return hr_fault(s, c, HR_BAD_JSON);
                if (--d == 0) {
                    s->type = *c == '}' ? HR_T_OBJECT : HR_T_ARRAY;
                    return c + 1;
                }
            }
        }
        if (HR_UNLIKELY(stray)) return hr_fault(s, p + __builtin_ctzll(stray), HR_BAD_JSON);
    }
    return hr_fault(s, e, HR_BAD_JSON);
}
