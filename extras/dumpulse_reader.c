/* A reader of version 2. dumpulse_keyed.h is the manual.   SPDX-License-Identifier: MIT */
#include "dumpulse_keyed.h"

bool dumpulse_keyed_request(dumpulse_reader *reader, uint8_t packet[DUMPULSE_PACKET_SIZE],
                            const uint8_t nonce[2])
{
    uint_fast8_t i;

    if (reader->heard.left == 0) {
        return false;
    }
    dumpulse_count_(&reader->heard, packet, DUMPULSE_READER_LABEL, nonce[0], nonce[1]);
    reader->epoch = reader->heard.epoch;
    for (i = 0; i != DUMPULSE_PACKET_SIZE; i++) {
        reader->asked[i] = packet[i];
    }
    return true;
}

bool dumpulse_keyed_check(dumpulse_reader *reader, dumpulse_keyed_report *report, size_t length)
{
    uint8_t *tag = (uint8_t *)report;
    uint8_t had[8], differ = 0;
    uint_fast8_t i;

    /* If a later beacon was heard, the report may have been held back. */
    if (length != DUMPULSE_KEYED_REPORT_SIZE || reader->epoch == 0 ||
        reader->epoch != reader->heard.epoch) {
        return false;
    }
    for (i = 0; i != 8; i++) {
        had[i] = tag[i];
    }
    dumpulse_report_tag_(reader->asked, reader->epoch, tag);
    for (i = 0; i != 8; i++) {
        differ |= (uint8_t)(tag[i] ^ had[i]);
        tag[i] = had[i];
    }
    if (differ != 0) {
        return false;
    }
    reader->epoch = 0;
    return true;
}
