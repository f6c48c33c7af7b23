package redis

// slots is how many slots a cluster has.
const slots = 16384

// slotOf returns the slot of a hash tag: CRC-16/XMODEM of it (Redis cluster
// specification).
func slotOf(tag []byte) uint16 {
	var crc uint16
	for _, b := range tag {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % slots
}
